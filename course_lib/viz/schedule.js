// The learning rate over the steps: drag its peak, and see recorded runs with a similar warm-up.
import { explorer } from "./explorer.js";
import { clamp, grouped, number, power, range, sum } from "./numbers.js";
import { disc, line, panel, text } from "./shapes.js";

const PAPER = { warmup_steps: 4000, d_model: 512 }; // table 3, row (base)
const LAST = 100000; // the last step in the picture
const [STEPS, WARM_UPS] = [450, [1, 10, 50, 200, 800, 4000]]; // of the recorded runs

const rate = (step, { warmup_steps, d_model }) =>
  Math.min(step ** -0.5, step * warmup_steps ** -1.5) / Math.sqrt(d_model);

/** Return the corners of a curve, which is straight between them on logarithmic axes. */
const corners = (one) =>
  [1, one.warmup_steps, LAST].map((step) => [step, Math.log10(rate(step, one))]);

/** Compute both curves as powers of ten, and the last losses of runs with the nearest warm-up. */
export function compute({ runs, ...yours }) {
  const distance = (run) => Math.abs(Math.log(run.warmup_steps / yours.warmup_steps)); // by ratio
  const [nearest] = runs.toSorted((one, other) => distance(one) - distance(other));
  const [recorded, reached] = [nearest.warmup_steps, nearest.losses.map((all) => all.at(-1))];
  return { yours: corners(yours), paper: corners(PAPER), recorded, reached };
}

const peakOf = (one) => `${Number(rate(one.warmup_steps, one).toPrecision(3))}`;
const whereIsPeak = (one) => `${peakOf(one)} at step ${grouped(one.warmup_steps)}`;
const ENDS = { across: [0.7, LAST], up: [-7.6, 0.2], log: true };
const RATES = panel(46, 30, 250, 340, { ...ENDS, title: "Learning rate: drag its peak" });

function drawRates(state, { yours, paper }) {
  const [peak, height] = RATES.place(yours[1]);
  return [
    RATES.frame({
      xTicks: range(6).map((n) => 10 ** n),
      yTicks: range(7).map((n) => n - 7),
      show: (tick) => (tick < 0 ? power(tick) : tick < 1000 ? tick : `${tick / 1000}k`),
      xLabel: "step (dashed: the paper’s base model)",
    }),
    line(RATES.x(STEPS), 30, RATES.x(STEPS), 370),
    text(RATES.x(STEPS) + 6, 42, "the runs end"),
    text(clamp(peak, 110, 230), height - 28, whereIsPeak(state), "middle halo"),
    RATES.curve(yours, "query thick"),
    RATES.curve(paper, "dashed"),
  ];
}

/** Choose a warm-up, rounded to one digit. */
const choose = (warmUp) => ({ warmup_steps: clamp(Number(warmUp.toPrecision(1)), 1, 10000) });

const PEAK = {
  label: "peak of the learning rate: move it with the arrow keys",
  draw: (_state, { yours: [, peak] }) => [
    disc(...RATES.place(peak), 18, "clear"),
    disc(...RATES.place(peak), 8, "key"),
  ],
  drag: (point) => choose(10 ** RATES.value(point)[0]),
  keys: ([down, right], { warmup_steps }) => choose(warmup_steps * 1.5 ** (right + down)),
  valueText: whereIsPeak,
};

const SPAN = { across: [0, STEPS], up: [0, 7] };
const LOSSES = panel(46, 30, 216, 340, { ...SPAN, title: "Recorded losses, by warm-up" });

/** Draw the losses of all runs, with their warm-ups at the ends. */
function drawLosses({ runs }, { recorded }) {
  const chosen = runs.find(({ warmup_steps }) => warmup_steps === recorded);
  const curve = ({ every, losses }, look) => {
    const points = (all) => all.map((loss, n) => [(n + 1) * every, loss]);
    return losses.map((all) => LOSSES.curve(points(all), look));
  };
  const end = ({ losses }) => LOSSES.y(sum(losses.map((all) => all.at(-1))) / losses.length);
  let last = 0; // height of the name above
  const name = (run) => {
    last = Math.max(last + 15, end(run) + 4);
    return text(266, last, grouped(run.warmup_steps), run === chosen ? "query bold" : "");
  };
  const axes = { xLabel: "step", yLabel: "nats per token" };
  return [
    LOSSES.frame({ xTicks: [0, 150, 300, 450], yTicks: range(8), ...axes }),
    runs.map((run) => curve(run, "line thin")),
    curve(chosen, "query thick"), // on top
    runs.toSorted((one, other) => end(one) - end(other)).map(name),
  ];
}

function describe(state, { recorded, reached }) {
  const { d_model, warmup_steps, runs } = state;
  const root = `1/\u2060√(${grouped(d_model)}\u00a0·\u00a0${grouped(warmup_steps)})`;
  return [
    `The rate peaks at ${peakOf(state)} = ${root} in step ${grouped(warmup_steps)}.`,
    `The three recorded runs with the nearest warm-up, ${grouped(recorded)}, reach losses of`,
    `${reached.map((loss) => number(loss)).join(", ")} nats after ${STEPS} steps.`,
    d_model !== runs[0].d_model && `Their d_model was ${runs[0].d_model}.`,
  ];
}

const SIZE = [310, 412];
export default explorer({
  panes: [
    { name: "the learning rate over the steps", size: SIZE, draw: drawRates, handles: [PEAK] },
    { name: "the losses of recorded runs", size: SIZE, draw: drawLosses },
  ],
  controls: {
    warmup_steps: { label: "a recorded warm-up", kind: "buttons", options: WARM_UPS },
    d_model: { label: "width d_model", options: [32, 64, 128, 256, 512, 1024], show: grouped },
  },
  compute,
  describe,
});
