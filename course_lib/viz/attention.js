// Attention in the plane: drag the query, and see scores, weights and output follow.
import { line, mount, number, panel, power, svg, text } from "./explorer.js";

export const WORDS = ["three", "hundred", "forty", "five"];
export const KEYS = [[1, -1], [-1, 0.5], [0.5, 1], [2, 1]];
export const VALUES = [[3, 0], [0, 2], [-1, 1], [1, 3]];
export const DEFAULTS = { x: 2, y: 1, d_k: 2, divide: true, temperature: 1 };
const SATURATED = -3; // a gradient below this power of ten counts as gone
const LIMIT = 3.4; // of both axes of a plane
const REACH = 3; // of the query
const KEY_OFFSETS = [[6, 16], [-8, -10], [-8, -10], [8, 4]];
const VALUE_OFFSETS = [[-4, 22], [-10, -10], [-4, 22], [12, 4]];

/** Compute scores, weights, output, and the gradient of the largest weight for the scores. */
export function compute({ x, y, d_k, divide, temperature }) {
  const factor = (divide ? 1 : Math.sqrt(d_k)) / Math.SQRT2 / temperature;
  const scores = KEYS.map(([a, b]) => (a * x + b * y) * factor);
  const top = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - top));
  const total = exponentials.reduce((sum, each) => sum + each, 0);
  const weights = exponentials.map((each) => each / total);
  const output = [0, 1].map((axis) => weights.reduce((sum, weight, n) => sum + weight * VALUES[n][axis], 0));
  const best = weights.indexOf(Math.max(...weights));
  const others = weights.filter((_, n) => n !== best);
  const rest = others.reduce((sum, each) => sum + each, 0);
  return { scores, weights, output, gradient: weights[best] * Math.hypot(rest, ...others) };
}

const plane = (title) => panel(30, 30, 240, 240, { across: [-LIMIT, LIMIT], up: [-LIMIT, LIMIT], title });
const KEY_PLANE = plane("Drag the query");
const VALUE_PLANE = plane("The output averages the values");
const TICKS = { xTicks: [-3, 0, 3], yTicks: [-3, 0, 3], show: (tick) => number(tick, 0) };

function arrow(at, [x, y], width, color) {
  const [x0, y0, x1, y1] = [at.x(0), at.y(0), at.x(x), at.y(y)];
  const long = Math.hypot(x1 - x0, y1 - y0);
  if (long < 1) return [];
  const [dx, dy] = [(x1 - x0) / long, (y1 - y0) / long];
  const size = Math.min(4 + 2 * width, long);
  const [bx, by] = [x1 - size * dx, y1 - size * dy];
  const half = size / 2;
  return [
    line(x0, y0, bx, by, { stroke: color, "stroke-width": width }),
    svg("path", { d: `M${x1},${y1}L${bx - half * dy},${by + half * dx}L${bx + half * dy},${by - half * dx}Z`, fill: color }),
  ];
}

const names = (at, points, offsets) =>
  points.map(([x, y], n) =>
    text(at.x(x) + offsets[n][0], at.y(y) + offsets[n][1], WORDS[n], { anchor: offsets[n][0] < 0 ? "end" : "start" }));

function barChart(title, heights, tall, [low, high], yTicks) {
  const at = panel(30, 320, 240, tall, { across: [-0.6, 3.6], up: [low, high], title });
  return [
    at.frame({ yTicks, show: (tick) => number(tick, tick % 1 ? 1 : 0) }),
    heights.map((height, n) => [
      svg("rect", { x: at.x(n - 0.35), width: at.x(0.7) - at.x(0), y: Math.min(at.y(height), at.y(0)),
        height: Math.abs(at.y(height) - at.y(0)), fill: "var(--line)" }),
      text(at.x(n), at.y(Math.max(height, 0)) - 4, number(height, Math.abs(height) < 10 ? 2 : 0), { anchor: "middle" }),
      text(at.x(n), 338 + tall, WORDS[n], { anchor: "middle" }),
    ]),
  ];
}

/** Show the gradient on a logarithmic axis, and where the softmax counts as saturated. */
function gauge(gradient) {
  const at = panel(30, 490, 240, 18, { across: [-8, 0], up: [0, 1], title: "" });
  const [edge, here] = [at.x(SATURATED), at.x(Math.max(Math.log10(gradient), -8))];
  return [
    text(30, 466, "Gradient of the largest weight", { class: "title" }),
    at.frame({
      xTicks: [-8, -6, -4, -2, 0],
      show: (tick) => (tick < -2 ? power(tick) : 10 ** tick),
    }),
    svg("rect", { x: 30, y: 490, width: edge - 30, height: 18, fill: "var(--faint)" }),
    svg("rect", { x: 30, y: 490, width: 240, height: 18, fill: "none", stroke: "var(--line)" }),
    line(edge, 484, edge, 514, { stroke: "var(--future)", "stroke-width": 3 }),
    text(edge - 6, 504, "saturated", { anchor: "end" }),
    svg("path", { d: `M${here},492l-8,-16h16Z`, fill: "var(--ink)" }),
  ];
}

function drawKeys(state, { scores }) {
  const reach = [2.5, 10, 40, 160, 640, 2560, 10240].find((each) => each >= Math.max(...scores.map(Math.abs)));
  return [
    KEY_PLANE.frame(TICKS),
    KEYS.map((key) => arrow(KEY_PLANE, key, 3, "var(--key)")),
    names(KEY_PLANE, KEYS, KEY_OFFSETS),
    barChart("Scores before the softmax", scores, 176, [-reach, reach], [-reach, 0, reach]),
  ];
}

function drawValues(state, { weights, output, gradient }) {
  const [right, up] = [VALUE_PLANE.x(output[0]), VALUE_PLANE.y(output[1])];
  return [
    VALUE_PLANE.frame(TICKS),
    VALUES.map(([x, y], n) => [
      line(VALUE_PLANE.x(x), VALUE_PLANE.y(y), right, up, { stroke: "var(--value)", "stroke-width": 8 * weights[n], opacity: 0.5 }),
      svg("circle", { cx: VALUE_PLANE.x(x), cy: VALUE_PLANE.y(y), r: 3 + 9 * Math.sqrt(weights[n]), fill: "var(--value)" }),
    ]),
    names(VALUE_PLANE, VALUES, VALUE_OFFSETS),
    text(right, up + 7, "✕", { anchor: "middle", style: "font-size:22px;font-weight:700" }),
    barChart("Weights, which add up to 1", weights, 100, [0, 1.2], [0, 1]),
    gauge(gradient),
  ];
}

const bounded = (value) => Math.round(10 * Math.min(Math.max(value, -REACH), REACH)) / 10;

const QUERY = {
  label: "query: move it with the arrow keys",
  draw: ({ x, y }) => [
    arrow(KEY_PLANE, [x, y], 6, "var(--query)"),
    svg("circle", { cx: KEY_PLANE.x(x), cy: KEY_PLANE.y(y), r: 16, fill: "transparent" }),
  ],
  drag: (point) => {
    const [x, y] = KEY_PLANE.value(point);
    return { x: bounded(x), y: bounded(y) };
  },
  keys: (key, { x, y }) => {
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[key];
    return step && { x: bounded(x + step[0]), y: bounded(y + step[1]) };
  },
  valueText: ({ x, y }) => `${number(x, 1)} across, ${number(y, 1)} up`,
};

function describe(state, { scores, weights, output, gradient }) {
  const top = Math.max(...weights);
  const best = WORDS.filter((_, n) => weights[n] > top - 1e-9);
  const winners = best.length === WORDS.length ? "every key" : best.map((word) => `“${word}”`).join(" and ");
  const learns = gradient < 10 ** SATURATED ? "the softmax is saturated and can hardly learn" : "the softmax can still learn";
  return `The largest weight, ${number(top)}, goes to ${winners}. The output is [${output.map((each) => number(each)).join(", ")}]. ` +
    `The gradient of the largest weight is ${gradient < 1e-6 ? "below 0.000001" : number(gradient, 6)}: ${learns}.`;
}

const SIZE = [300, 526];
const VIEW = {
  defaults: DEFAULTS,
  panes: [
    { name: "the query and the keys, and their scores", size: SIZE, draw: drawKeys, handles: [QUERY] },
    { name: "the values and the output, their weights, and the gradient", size: SIZE, draw: drawValues },
  ],
  controls: {
    temperature: { label: "temperature", options: [0.125, 0.25, 0.5, 1, 2, 4, 8, 16] },
    d_k: { label: "width d_k", options: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512] },
    divide: { label: "divide by √d_k", kind: "check" },
  },
  compute,
  describe,
};

export default { render: ({ model, el }) => mount(model, el, VIEW) };
