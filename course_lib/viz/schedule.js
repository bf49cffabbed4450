// The learning rate over the steps: drag its peak, and see recorded runs with such a warm-up.
import { curve, line, mount, number, panel, power, svg, text } from "./explorer.js";

export const DEFAULTS = { warmup_steps: 50, d_model: 128, shown: 100000, smoothing: 0.1 };
const PAPER = { warmup_steps: 4000, d_model: 512 }; // table 3, row (base)
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]; // warm-ups to choose, times powers of ten
const CHOICES = [1, 10, 100, 1000].flatMap((ten) => ROUND.map((one) => Math.floor(one * ten)));
const WARM_UPS = [...new Set(CHOICES), 10000];
const TOKENS = ["pad", "1", "2", "3", "4", "5", "6"]; // the vocabulary of the chapter's example
const RIGHT = 3;
const COUNT = TOKENS.length - 1; // tokens that get a part of the smoothing mass

const rate = (step, { warmup_steps, d_model }) =>
  Math.min(step ** -0.5, step * warmup_steps ** -1.5) / Math.sqrt(d_model);

/** Return the steps between which a curve is straight, because both axes are logarithmic. */
const corners = ({ warmup_steps }, shown) => [1, Math.min(warmup_steps, shown), shown];

/** Compute both curves as powers of ten, what the nearest runs reach, and the smoothed target. */
export function compute({ warmup_steps, d_model, shown, smoothing, runs }) {
  const powers = (one) => corners(one, shown).map((step) => Math.log10(rate(step, one)));
  const factor = (run) =>
    Math.max(run.warmup_steps / warmup_steps, warmup_steps / run.warmup_steps);
  const nearest = runs.reduce((best, run) => (factor(run) < factor(best) ? run : best));
  const target = TOKENS.map((_, n) => (n === 0 ? 0 : smoothing / COUNT));
  target[RIGHT] += 1 - smoothing;
  const surprises = target.map((q) => (q === 0 ? 0 : -q * Math.log(q)));
  return {
    yours: powers({ warmup_steps, d_model }),
    paper: powers(PAPER),
    recorded: nearest.warmup_steps,
    reached: nearest.losses.map((losses) => losses.at(-1)),
    target,
    bound: surprises.reduce((sum, each) => sum + each, 0),
  };
}

const grouped = (value) => value.toLocaleString("en-US");
const peakOf = (one) => `${Number(rate(one.warmup_steps, one).toPrecision(3))}`;
const lastStep = ([{ every, losses }]) => every * losses[0].length;

const whereIsPeak = (one) => `${peakOf(one)} at step ${grouped(one.warmup_steps)}`;

const ratePanel = (shown) =>
  panel(46, 30, 250, 340, {
    across: [1, shown],
    up: [-7.6, -0.4],
    log: true,
    title: "Learning rate: drag its peak",
  });

/** Draw a triangle on the axis, larger and in color if it is chosen. */
const mark = (x, chosen) =>
  chosen
    ? svg("path", { d: `M${x - 8},370h16l-8,-15Z`, fill: "var(--query)" })
    : svg("path", { d: `M${x - 5},370h10l-5,-9Z`, fill: "var(--line)" });

function drawRates(state, { yours, paper, recorded }) {
  const { warmup_steps, shown, runs } = state;
  const at = ratePanel(shown);
  const draw = (one, powers, more) =>
    curve(corners(one, shown).map((step, n) => [at.x(step), at.y(powers[n])]), more);
  const peak = at.x(Math.min(warmup_steps, shown));
  const [place, anchor] = peak > 170 ? [peak - 10, "end"] : [peak + 10, "start"];
  const words = warmup_steps > shown ? "still rising" : whereIsPeak(state);
  const end = at.x(lastStep(runs));
  const left = end < 200; // of the panel: the words are to the right of the line
  const seen = runs.map((run) => run.warmup_steps).filter((step) => step <= shown);
  return [
    at.frame({
      xTicks: [1, 10, 100, 1000, 10000, 100000].filter((tick) => tick <= shown),
      yTicks: [-7, -6, -5, -4, -3, -2, -1],
      show: (tick) => (tick < 0 ? power(tick) : tick < 1000 ? tick : `${tick / 1000}k`),
      xLabel: "step",
    }),
    line(end, 30, end, 370, { "stroke-dasharray": "2 4" }),
    text(end + (left ? 6 : -6), 42, "the runs end", { anchor: left ? "start" : "end" }),
    seen.map((step) => mark(at.x(step), step === recorded)),
    text(296, 352, "▲ recorded warm-ups", { anchor: "end" }),
    text(place, at.y(yours[1]) - 10, words, { anchor }),
    draw(state, yours, { stroke: "var(--query)", "stroke-width": 3 }),
    draw(PAPER, paper, { stroke: "var(--ink)", "stroke-dasharray": "7 5" }),
    text(at.x(8) + 8, at.y(Math.log10(rate(8, PAPER))) + 14, "paper’s base model"),
  ];
}

const distance = (one, other) => Math.abs(Math.log(one / other));
const nearestChoice = (step) =>
  WARM_UPS.reduce((best, each) => (distance(each, step) < distance(best, step) ? each : best));

const PEAK = {
  label: "peak of the learning rate: move it with the arrow keys",
  draw: (state, { yours }) => {
    const at = ratePanel(state.shown);
    const [cx, cy] = [at.x(Math.min(state.warmup_steps, state.shown)), at.y(yours[1])];
    const fill = state.warmup_steps > state.shown ? "var(--paper)" : "var(--key)";
    return [
      svg("circle", { cx, cy, r: 18, fill: "transparent" }),
      svg("circle", { cx, cy, r: 7, stroke: "var(--key)", "stroke-width": 3, fill }),
    ];
  },
  drag: (point, { shown }) => ({
    warmup_steps: nearestChoice(10 ** ratePanel(shown).value(point)[0]),
  }),
  keys: (key, { warmup_steps }) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[key];
    const place = WARM_UPS.indexOf(nearestChoice(warmup_steps)) + by;
    return by && { warmup_steps: WARM_UPS[Math.min(Math.max(place, 0), WARM_UPS.length - 1)] };
  },
  valueText: whereIsPeak,
};

function drawLosses({ runs }, { recorded }) {
  const end = lastStep(runs);
  const title = `Recorded losses, warm-up ${grouped(recorded)}`;
  const at = panel(46, 30, 250, 210, { across: [0, end], up: [0, 7], title });
  const draw = ({ every, losses }, more) =>
    losses.map((each) => curve(each.map((loss, n) => [at.x((n + 1) * every), at.y(loss)]), more));
  const [others, chosen] = [false, true].map((wanted) =>
    runs.filter((run) => (run.warmup_steps === recorded) === wanted));
  return [
    at.frame({
      xTicks: [0, 150, 300, 450],
      yTicks: [0, 3, 6],
      xLabel: "step",
      yLabel: "nats per token",
    }),
    others.map((run) => draw(run, { stroke: "var(--masked)", "stroke-width": 1 })),
    chosen.map((run) => draw(run, { stroke: "var(--query)" })),
  ];
}

function drawTarget({ smoothing }, { target, bound }) {
  const title = `Smoothed target, ε = ${number(smoothing)}`;
  const at = panel(46, 318, 250, 80, { across: [-0.6, 6.6], up: [0, 1.2], title });
  return [
    at.frame({ yTicks: [0, 1] }),
    target.map((q, n) => [
      line(at.x(n), at.y(0), at.x(n), at.y(q), { "stroke-width": 24 }),
      text(at.x(n), at.y(q) - 4, number(q), { anchor: "middle" }),
      text(at.x(n), 414, TOKENS[n], { anchor: "middle" }),
    ]),
    text(252, at.y(1) + 16, "entropy bound", { anchor: "middle" }),
    text(252, at.y(1) + 33, `${number(bound)} nats`, { anchor: "middle" }),
  ];
}

function describe(state, { recorded, reached }) {
  const { warmup_steps, d_model, shown, runs } = state;
  const [lowest, highest] = [Math.min, Math.max].map((end) => number(end(...reached)));
  const peak = `${peakOf(state)} = 1/\u2060√(${d_model}\u00a0·\u00a0${grouped(warmup_steps)})`;
  const rises =
    warmup_steps > shown
      ? `The rate is still rising at step ${grouped(shown)}; its peak, ${peak}, comes`
      : `The rate peaks with ${peak}`;
  return (
    `${rises} at step ${grouped(warmup_steps)}. ` +
    `The recorded runs with the nearest warm-up, ${grouped(recorded)}, reach a loss of ` +
    `${lowest} to ${highest} nats after ${lastStep(runs)} steps` +
    (d_model === runs[0].d_model ? "." : `; their d_model was ${runs[0].d_model}.`)
  );
}

const SIZE = [310, 426];
const VIEW = {
  defaults: DEFAULTS,
  data: ["runs"],
  panes: [
    { name: "the learning rate over the steps", size: SIZE, draw: drawRates, handles: [PEAK] },
    {
      name: "recorded losses, and the smoothed target",
      size: SIZE,
      draw: (...all) => [drawLosses(...all), drawTarget(...all)],
    },
  ],
  controls: {
    d_model: { label: "width d_model", options: [32, 64, 128, 256, 512, 1024] },
    shown: { label: "steps shown", options: [450, 4000, 20000, 100000], show: grouped },
  },
  more: {
    smoothing: { label: "label smoothing ε", min: 0, max: 1, step: 0.05, show: (ε) => number(ε) },
  },
  compute,
  describe,
};

export default { render: ({ model, el }) => mount(model, el, VIEW) };
