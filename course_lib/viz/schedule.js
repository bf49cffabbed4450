// The learning rate over the steps: drag its peak, and see recorded runs with such a warm-up.
import { explorer } from "./explorer.js";
import { clamp, grouped, number, power, range } from "./numbers.js";
import { disc, line, panel, text } from "./shapes.js";

const PAPER = { warmup_steps: 4000, d_model: 512 }; // table 3, row (base)
const LAST = 100000; // step of the picture

const rate = (step, { warmup_steps, d_model }) =>
  Math.min(step ** -0.5, step * warmup_steps ** -1.5) / Math.sqrt(d_model);

/** Return the corners of a curve, which is straight between them on logarithmic axes. */
const corners = (one) =>
  [1, one.warmup_steps, LAST].map((step) => [step, Math.log10(rate(step, one))]);

/** Compute both curves as powers of ten, and what the runs with the nearest warm-up reach. */
export function compute({ runs, ...yours }) {
  const distance = (run) => Math.abs(Math.log(run.warmup_steps / yours.warmup_steps)); // by ratio
  const [nearest] = runs.toSorted((one, other) => distance(one) - distance(other));
  const [recorded, reached] = [nearest.warmup_steps, nearest.losses.map((all) => all.at(-1))];
  return { yours: corners(yours), paper: corners(PAPER), recorded, reached };
}

const lastStep = ([{ every, losses }]) => every * losses[0].length;
const peakOf = (one) => `${Number(rate(one.warmup_steps, one).toPrecision(3))}`;
const whereIsPeak = (one) => `${peakOf(one)} at step ${grouped(one.warmup_steps)}`;
const ENDS = { across: [0.7, LAST], up: [-7.6, 0.2], log: true };
const RATES = panel(46, 30, 250, 340, { ...ENDS, title: "Learning rate: drag its peak" });

function drawRates(state, { yours, paper, recorded }) {
  const mark = ({ warmup_steps: at }) =>
    text(RATES.x(at), 370, "▲", at === recorded ? "middle big query" : "middle");
  const [peak, height] = RATES.place(yours[1]);
  const end = RATES.x(lastStep(state.runs));
  return [
    RATES.frame({
      xTicks: range(6).map((n) => 10 ** n),
      yTicks: range(7).map((n) => n - 7),
      show: (tick) => (tick < 0 ? power(tick) : tick < 1000 ? tick : `${tick / 1000}k`),
      xLabel: "step (dashed: paper’s base model; ▲: runs)",
    }),
    line(end, 30, end, 370),
    text(end + 6, 42, "the runs end"),
    state.runs.map(mark),
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
  keys: ([down, right], { warmup_steps }) => choose(warmup_steps * 1.5 ** (right - down)),
  valueText: whereIsPeak,
};

function drawLosses({ runs }, { recorded }) {
  const title = `Recorded losses, warm-up ${grouped(recorded)}`;
  const at = panel(46, 30, 250, 340, { across: [0, lastStep(runs)], up: [0, 7], title });
  const draw = ({ every, losses }, look) => {
    const points = (all) => all.map((loss, n) => [(n + 1) * every, loss]);
    return losses.map((all) => at.curve(points(all), look));
  };
  const axes = { xLabel: "step (gray: other warm-ups)", yLabel: "nats per token" };
  return [
    at.frame({ xTicks: [0, 150, 300, 450], yTicks: range(8), ...axes }),
    runs.map((run) => draw(run, "line")),
    runs.map((run) => run.warmup_steps === recorded && draw(run, "query thick")), // on top
  ];
}

function describe(state, { recorded, reached }) {
  const { d_model, warmup_steps, runs } = state;
  const root = `1/\u2060√(${grouped(d_model)}\u00a0·\u00a0${grouped(warmup_steps)})`;
  return [
    `The rate peaks with ${peakOf(state)} = ${root} at step ${grouped(warmup_steps)}.`,
    `The three recorded runs with the nearest warm-up, ${grouped(recorded)}, reach losses of`,
    `${reached.map((loss) => number(loss)).join(", ")} nats after ${lastStep(runs)} steps.`,
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
    d_model: { label: "width d_model", options: [32, 64, 128, 256, 512, 1024], show: grouped },
  },
  compute,
  describe,
});
