// Attention in the plane: drag the query, and see scores, weights and output follow.
import { explorer } from "./explorer.js";
import { clamp, dot, mix, number, power, softmax, sum } from "./numbers.js";
import { disc, line, panel, rect, shape, svg, text } from "./shapes.js";

const WORDS = {
  // each with its key, its value, and how far from them its name is
  three: [1, -1, 3, 0, 6, 16, -4, 22],
  hundred: [-1, 0.5, 0, 2, -8, -10, -10, -10],
  forty: [0.5, 1, -1, 1, -8, -10, -4, 22],
  five: [2, 1, 1, 3, 8, 4, 16, 4],
};
const NAMES = Object.keys(WORDS);
const [KEYS, VALUES, KEY_NAMES, VALUE_NAMES] = [0, 2, 4, 6].map((from) =>
  Object.values(WORDS).map((numbers) => numbers.slice(from, from + 2)),
);
export const DEFAULTS = { x: 2, y: 1, d_k: 2, divide: true, temperature: 1 };
const SATURATED = -3; // a gradient below this power of ten counts as gone
const REACH = 3; // of the query

/** Compute scores, weights, output, and the gradient of the largest weight for the scores. */
export function compute({ x, y, d_k, divide, temperature }) {
  const factor = (divide ? 1 : Math.sqrt(d_k)) / Math.SQRT2 / temperature;
  const scores = KEYS.map((key) => dot(key, [x, y]) * factor);
  const weights = softmax(scores);
  const output = mix(weights, VALUES);
  const best = weights.indexOf(Math.max(...weights));
  const others = weights.filter((_, n) => n !== best);
  return { scores, weights, output, gradient: weights[best] * Math.hypot(sum(others), ...others) };
}

const BOTH = { across: [-3.4, 3.4], up: [-3.4, 3.4] };
const KEY_PLANE = panel(30, 30, 240, 240, { ...BOTH, title: "Drag the query" });
const VALUE_PLANE = panel(30, 30, 240, 240, { ...BOTH, title: "The output averages the values" });
const TICKS = { xTicks: [-3, 0, 3], yTicks: [-3, 0, 3], show: (tick) => number(tick, 0) };

function arrow([x, y], width, look) {
  const long = Math.hypot(...KEY_PLANE.place([x, y]).map((end) => end - 150)); // from the middle
  const tip = Math.min(4 + 2 * width, long);
  const angle = (Math.atan2(-y, x) * 180) / Math.PI;
  const place = { class: look, transform: `translate(150 150) rotate(${angle})` };
  const head = shape(`M${long},0l${-tip},${-tip / 2}v${tip}z`);
  return svg("g", place, rect(0, -width / 2, long - tip, width), head);
}

const names = (at, points, offsets) =>
  points.map(([x, y], n) => {
    const [right, down] = offsets[n];
    return text(at.x(x) + right, at.y(y) + down, NAMES[n], right < 0 ? "end" : "");
  });

function bars(title, heights, tall, up, yTicks) {
  const at = panel(30, 320, 240, tall, { across: [-0.6, 3.6], up, title });
  const draw = (height, n) => {
    const value = number(height, Math.abs(height) < 10 ? 2 : 0);
    return [
      line(at.x(n), at.y(0), at.x(n), at.y(height), { class: "line", "stroke-width": 40 }),
      text(at.x(n), at.y(Math.max(height, 0)) - 4, value, "middle halo"),
      text(at.x(n), 338 + tall, NAMES[n], "middle"),
    ];
  };
  const show = (tick) =>
    Math.abs(tick) < 1000 ? number(tick, tick % 1 ? 1 : 0) : `${number(tick / 1000, 0)}k`;
  return [at.frame({ yTicks, show }), heights.map(draw)];
}

/** Show the gradient on a logarithmic axis, and where the softmax counts as saturated. */
function gauge(gradient) {
  const title = "Gradient of the largest weight";
  const at = panel(30, 488, 240, 20, { across: [-8, 0], up: [0, 1], title });
  const [edge, here] = [at.x(SATURATED), at.x(Math.max(Math.log10(gradient), -8))];
  return [
    rect(30, 488, edge - 30, 20, "masked"),
    at.frame({ xTicks: [-8, -6, -4, -2, 0], show: power }),
    text((30 + edge) / 2, 503, "saturated", "middle"),
    line(edge, 484, edge, 512, "future thick"),
    disc(here, 498, 7, "query"),
  ];
}

function drawKeys(_state, { scores }) {
  const most = Math.max(...scores.map(Math.abs));
  const reach = [2.5, 10, 40, 200, 1000, 2000].find((each) => each > 1.2 * most);
  return [
    KEY_PLANE.frame(TICKS),
    KEYS.map((key) => arrow(key, 3, "key")),
    names(KEY_PLANE, KEYS, KEY_NAMES),
    bars("Scores before the softmax", scores, 176, [-reach, reach], [-reach, 0, reach]),
  ];
}

function drawValues(_state, { weights, output, gradient }) {
  const [right, up] = VALUE_PLANE.place(output);
  const draw = (value, n) => [
    VALUE_PLANE.curve([value, output], { class: "value pale", "stroke-width": 8 * weights[n] }),
    disc(...VALUE_PLANE.place(value), 3 + 9 * Math.sqrt(weights[n]), "value"),
  ];
  return [
    VALUE_PLANE.frame(TICKS),
    VALUES.map(draw),
    names(VALUE_PLANE, VALUES, VALUE_NAMES),
    text(right, up + 8, "✕", "middle bold big"),
    bars("Weights, which add up to 1", weights, 100, [0, 1.2], [0, 1]),
    gauge(gradient),
  ];
}

const place = (x, y) => {
  const [across, up] = [x, y].map((each) => Math.round(10 * clamp(each, -REACH, REACH)) / 10);
  return { x: across, y: up };
};
const QUERY = {
  label: "query: move it with the arrow keys",
  draw: ({ x, y }) => [
    arrow([x, y], 6, "query"),
    disc(...KEY_PLANE.place([0, 0]), 5, "query"),
    disc(...KEY_PLANE.place([x, y]), 16, "clear"),
  ],
  drag: (point) => place(...KEY_PLANE.value(point)),
  keys: (step, { x, y }) => place(x + step[1] / 10, y - step[0] / 10),
  valueText: ({ x, y }) => `${number(x, 1)} across, ${number(y, 1)} up`,
};

function describe(_state, { weights, output, gradient }) {
  const top = Math.max(...weights);
  const best = NAMES.filter((_, n) => weights[n] > top - 1e-9).map((word) => `“${word}”`);
  const winners = best.length === NAMES.length ? "every key" : best.join(" and ");
  const value = gradient < 1e-6 ? "below 0.000001" : number(gradient, 6);
  const learns = gradient < 10 ** SATURATED ? "is saturated and can hardly" : "can still";
  return [
    `The largest weight, ${number(top)}, goes to ${winners}.`,
    `The output is [${output.map((each) => number(each)).join(", ")}].`,
    `The gradient of the largest weight is ${value}, so the softmax ${learns} learn.`,
  ];
}

const LEFT = "the query and the keys, and their scores";
const RIGHT = "the values and the output, their weights, and the gradient";
const POWERS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
export default explorer({
  defaults: DEFAULTS,
  panes: [
    { name: LEFT, size: [300, 526], draw: drawKeys, handles: [QUERY] },
    { name: RIGHT, size: [300, 526], draw: drawValues },
  ],
  controls: {
    temperature: { label: "temperature", options: POWERS.slice(0, 8) },
    d_k: { label: "width d_k", options: POWERS.slice(3) },
    divide: { label: "divide by √d_k", kind: "check" },
  },
  compute,
  describe,
});
