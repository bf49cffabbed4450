// Attention in the plane: drag the query, and see scores, weights and output follow.
import { explorer } from "./explorer.js";
import { clamp, dot, mix, number, power, range, softmax, sum } from "./numbers.js";
import { disc, line, panel, rect, shape, svg, text } from "./shapes.js";

const WORDS = [
  // each with its key, its value, and the offset of its name
  { name: "three", key: [1, -1], value: [3, 0], away: [-4, 22] },
  { name: "hundred", key: [-1, 0.5], value: [0, 2], away: [-10, -8] },
  { name: "forty", key: [0.5, 1], value: [-1, 1], away: [-8, -10] },
  { name: "five", key: [2, 1], value: [1, 3], away: [16, 4] },
];
const VALUES = WORDS.map(({ value }) => value);
const SATURATED = -3; // below this power of ten, we say that the gradient vanishes

/** Compute scores, weights, output, and the norm of the largest weight's gradient. */
export function compute({ x, y, d_k, divide, temperature }) {
  const factor = (divide ? 1 : Math.sqrt(d_k)) / Math.SQRT2 / temperature;
  const scores = WORDS.map(({ key }) => dot(key, [x, y]) * factor);
  const weights = softmax(scores);
  const top = Math.max(...weights);
  const others = weights.toSpliced(weights.indexOf(top), 1);
  const gradient = top * Math.hypot(sum(others), ...others);
  return { scores, weights, output: mix(weights, VALUES), gradient };
}

const TICKS = { xTicks: [-3, 0, 3], yTicks: [-3, 0, 3], show: (tick) => number(tick, 0) };
const SIDES = { across: [-3.4, 3.4], up: [-3.4, 3.4] };
const PLACE = [30, 30, 240, 240]; // of both planes
const KEY_PLANE = panel(...PLACE, { ...SIDES, title: "Drag the blue query; keys are orange" });
const VALUE_PLANE = panel(...PLACE, { ...SIDES, title: "The output averages the values" });

/** Draw a plane, with the names of the words near their keys or values. */
const drawPlane = (plane, kind) => [
  plane.frame(TICKS),
  WORDS.map(({ name, [kind]: [x, y], away: [right, down] }) =>
    text(plane.x(x) + right, plane.y(y) + down, name, right < 0 ? "end" : ""),
  ),
];

/** Draw an arrow from the origin of the key plane. */
function drawArrow([x, y], width, look) {
  const long = KEY_PLANE.x(Math.hypot(x, y)) - KEY_PLANE.x(0);
  const tip = Math.min(4 + 2 * width, long);
  const angle = (Math.atan2(-y, x) * 180) / Math.PI;
  const transform = `translate(${KEY_PLANE.place([0, 0])}) rotate(${angle})`;
  const head = shape(`M${long},0l${-tip},${-tip / 2}v${tip}z`);
  return svg("g", { class: look, transform }, rect(0, -width / 2, long - tip, width), head);
}

/** Draw bars, cut off at `low` and `most` so that the axis never changes. */
function drawBars(title, heights, tall, low, most) {
  const up = [1.2 * low, 1.2 * most]; // with room for numbers
  const at = panel(30, 318, 240, tall, { across: [-0.6, 3.6], up, title });
  const end = (height) => at.y(clamp(height, low, most));
  const draw = (height, n) => [
    line(at.x(n), at.y(0), at.x(n), end(height), { class: "line", "stroke-width": 40 }),
    text(at.x(n), end(height) + (height < 0 ? 14 : -4), number(height), "middle halo"),
    text(at.x(n), at.y(0) + (height < 0 ? -6 : 15), WORDS[n].name, "middle"),
  ];
  return [at.frame({ yTicks: [0, most] }), heights.map(draw)];
}

/** Show the gradient on a logarithmic axis, and mark where the softmax is saturated. */
function drawGauge(gradient) {
  const title = "Gradient of the largest weight";
  const at = panel(30, 456, 240, 20, { across: [-8, 0], up: [0, 1], title });
  const [low, edge, here] = [-8, SATURATED, Math.max(Math.log10(gradient), -8)].map(at.x);
  return [
    rect(low, 456, edge - low, 20, "masked"),
    at.frame({ xTicks: [-8, -6, -4, -2, 0], show: power }),
    text((low + edge) / 2, 471, "saturated", "middle"),
    line(edge, 452, edge, 480, "future thick"),
    disc(here, 466, 7, "query"),
  ];
}

function drawKeys(_state, { scores }) {
  return [
    drawPlane(KEY_PLANE, "key"),
    WORDS.map(({ key }) => drawArrow(key, 3, "key")),
    drawBars("Scores (bars end at 10 and −10)", scores, 164, -10, 10),
  ];
}

function drawValues(_state, { weights, output, gradient }) {
  const [left, top] = VALUE_PLANE.place(output);
  const draw = (value, n) => [
    VALUE_PLANE.curve([value, output], { class: "value pale", "stroke-width": 8 * weights[n] }),
    disc(...VALUE_PLANE.place(value), 3 + 9 * Math.sqrt(weights[n]), "value"),
  ];
  return [
    drawPlane(VALUE_PLANE, "value"),
    VALUES.map(draw),
    text(left, top + 8, "✕", "middle bold big"),
    drawBars("Weights, which add up to 1", weights, 90, 0, 1),
    drawGauge(gradient),
  ];
}

const round = (value) => Math.round(10 * clamp(value, -3, 3)) / 10;
const place = (x, y) => ({ x: round(x), y: round(y) });
const QUERY = {
  label: "query: move it with the arrow keys",
  draw: ({ x, y }) => [
    drawArrow([x, y], 6, "query"),
    disc(...KEY_PLANE.place([0, 0]), 5, "query"),
    disc(...KEY_PLANE.place([x, y]), 16, "clear"),
  ],
  drag: (point) => place(...KEY_PLANE.value(point)),
  keys: ([down, right], { x, y }) => place(x + right / 10, y - down / 10),
  valueText: ({ x, y }) => `${number(x, 1)} across, ${number(y, 1)} up`,
};

function describe(_state, { weights, output, gradient }) {
  const top = Math.max(...weights);
  const best = WORDS.filter((_, n) => weights[n] > top - 1e-9).map(({ name }) => `“${name}”`);
  const state = gradient < 10 ** SATURATED ? "is saturated" : "is not saturated";
  return [
    `The largest weight, ${number(top)}, goes to ${best.join(" and ")}.`,
    `The output is [${output.map((each) => number(each)).join(", ")}].`,
    `The gradient of the largest weight is ${gradient.toPrecision(2)}, so the softmax ${state}.`,
  ];
}

const SIZE = [300, 494];
const POWERS = range(13).map((n) => 2 ** (n - 3)); // from 1/8 to 512
export default explorer({
  panes: [
    { name: "the query, the keys and scores", size: SIZE, draw: drawKeys, handles: [QUERY] },
    { name: "the values, the output, weights and the gradient", size: SIZE, draw: drawValues },
  ],
  controls: {
    temperature: { label: "temperature", options: POWERS.slice(0, 8) },
    d_k: { label: "width d_k", options: POWERS.slice(3) },
    divide: { label: "divide by √d_k", kind: "check" },
  },
  compute,
  describe,
});
