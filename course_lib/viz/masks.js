// Masks: open and block cells, and see what each word may look at, and what leaks from the future.
import { mount, number, shade, svg, text } from "./explorer.js";

const ENCODER = "encoder self-attention";
const DECODER = "decoder self-attention";
const CROSS = "cross-attention";
const SIDES = { [ENCODER]: ["source", "source"], [DECODER]: ["target", "target"], [CROSS]: ["target", "source"] };
const PADDING = "[pad]";
const MOST = 6; // words of a side
const RULES = {
  "causal": (t, s) => s <= t,
  "padding": (t, s, key) => key !== PADDING,
  "both": (t, s, key) => s <= t && key !== PADDING,
  "nothing blocked": () => true,
};
export const DEFAULTS = {
  attention: DECODER,
  mask: "both",
  cells: Array(MOST).fill("1".repeat(MOST)),
  source: "three hundred five [pad]",
  target: "[bos] drei hundert fünf [pad] [pad]",
  row: 3,
  column: 3,
};

const split = (sentence) => sentence.split(/\s+/).filter(Boolean);

/** Read queries and keys, the cursor's cell [t, s], and a side that has no words or too many. */
function readTable({ attention, source, target, row, column }) {
  const words = { source: split(source), target: split(target) };
  const [queries, keys] = SIDES[attention].map((side) => words[side]);
  const wrong = SIDES[attention].find((side) => words[side].length < 1 || words[side].length > MOST);
  return { queries, keys, t: Math.min(row, queries.length - 1), s: Math.min(column, keys.length - 1), wrong };
}

/** Say which of some queries may look at which keys. */
function makeMask({ mask, cells }, length, keys) {
  const mayLook = RULES[mask] ?? ((t, s) => cells[t][s] === "1"); // or “your own”
  return Array.from({ length }, (_, t) => keys.map((key, s) => mayLook(t, s, key)));
}

/** Say whether an open cell shows a word of the decoder what it must predict. */
const leaks = ({ attention, target }, t, s) => attention === DECODER && s > t && split(target)[t] !== PADDING;

const dot = (one, other) => one.reduce((sum, value, i) => sum + value * other[i], 0);

/** Embed words, add their positional encodings, and project them to queries or keys. */
function project(words, { embedding }, matrix) {
  return words.map((word, position) => {
    const vector = embedding[Object.hasOwn(embedding, word) ? word : "[unk]"].map((value, i, { length }) => {
      const angle = position / 10000 ** ((i - (i % 2)) / length);
      return value / 100 + Math.fround(i % 2 ? Math.cos(angle) : Math.sin(angle));
    });
    return matrix.map((row) => dot(row, vector) / 100);
  });
}

function softmax(scores, open) {
  const top = Math.max(...scores.filter((_, s) => open[s]));
  const exponentials = scores.map((score, s) => (open[s] ? Math.exp(score - top) : 0));
  const total = exponentials.reduce((sum, each) => sum + each, 0) || 1; // an empty row stays 0
  return exponentials.map((each) => each / total);
}

/** Compute the mask, its chosen row in two other conventions, the weights, and what each row leaks. */
export function compute(state) {
  const { queries, keys, t: chosen, wrong } = readTable(state);
  if (wrong) {
    const count = split(state[wrong]).length;
    throw new Error(`The ${wrong} has ${count} words. Type 1 to ${MOST} words with spaces between them.`);
  }
  const mask = makeMask(state, queries.length, keys);
  const { w_q, w_k } = state.layer[state.attention];
  const projected = project(keys, state.layer, w_k);
  const weights = project(queries, state.layer, w_q).map((query, t) =>
    softmax(projected.map((key) => dot(query, key) / Math.sqrt(query.length)), mask[t]));
  const leaked = weights.map((row, t) => row.reduce((sum, each, s) => sum + (leaks(state, t, s) ? each : 0), 0));
  const blocked = mask[chosen].map((open) => !open);
  return { mask, weights, leaked, blocked, additive: blocked.map((each) => (each ? -Infinity : 0)) };
}

const [LEFT, TOP, CELL] = [70, 92, 39];
const LABEL = 62; // the widest label

/** Shorten a word that is too wide for a label. */
function short(word, label = word) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "13px sans-serif";
  if (word.length < 2 || pen.measureText(label).width <= LABEL) return label;
  return short(word.slice(0, -1), `${word.slice(0, -1)}…`);
}

/** Frame some cells of one row. */
const frame = (t, s, width, color, inset = 0) => svg("rect", {
  x: LEFT + s * CELL + inset, y: TOP + t * CELL + inset, width: width * CELL - 2 * inset, height: CELL - 2 * inset,
  fill: "none", stroke: color, "stroke-width": 3 });

/** Draw a cell with words; a blocked one is gray, and hatched if there are none. */
function cell(x, y, open, words, { fill = "var(--paper)", ...more } = {}) {
  const half = CELL / 2;
  const hatch = `M${x},${y + half}l${half},${-half}m${half},0l${-CELL},${CELL}m${half},0l${half},${-half}`;
  return [
    svg("rect", { x, y, width: CELL, height: CELL, fill: open ? fill : "var(--masked)", stroke: "var(--line)" }),
    !words && svg("path", { d: hatch, stroke: "var(--line)" }),
    text(x + half, y + half + 5, words, { anchor: "middle", ...more }),
  ];
}

/** Draw a table whose open cells show what `content` returns; a red frame shows what leaks. */
const table = (state, { mask }, content) => [
  mask.map((row, t) => row.map((open, s) =>
    cell(LEFT + s * CELL, TOP + t * CELL, open, ...(open ? content(t, s) : [""])))),
  mask.map((row, t) => row.map((open, s) => open && leaks(state, t, s) && frame(t, s, 1, "var(--future)"))),
  frame(readTable(state).t, 0, mask[0].length, "var(--query)", -2),
];

/** Write title and words of a table, and below it its chosen row, printed in some ways. */
function surroundings(title, state, { mask }, lines) {
  const { queries, keys, t: chosen } = readTable(state);
  const right = (y, words) => text(LEFT - 8, y, words, { anchor: "end" });
  return [
    text(0, 16, title, { class: "title" }),
    right(TOP - 26, "key →"),
    right(TOP - 8, "query ↓"),
    queries.map((word, t) => right(TOP + (t + 0.5) * CELL + 5, short(word))),
    keys.map((word, s) =>
      text(0, 0, short(word), { transform: `translate(${LEFT + (s + 0.5) * CELL} ${TOP - 8}) rotate(-50)` })),
    Object.entries(lines).map(([caption, values], n) => {
      const y = TOP + MOST * CELL + 26 + 66 * n;
      const cells = values.map((value, s) => cell(LEFT + s * CELL, y + 6, mask[chosen][s], value));
      return [text(0, y, caption), right(y + 30, short(queries[chosen])), cells];
    }),
  ];
}

const named = (value) => (value ? "True" : "False");

const drawMask = (state, numbers) => surroundings("Click or drag to open and block cells", state, numbers, {
  "Ours: True = may look": numbers.blocked.map((each) => named(!each)),
  "nn.MultiheadAttention: True = blocked": numbers.blocked.map(named),
});

const drawWeights = (state, numbers) => surroundings("Weights of a trained layer", state, numbers, {
  "Additive: added to the scores": numbers.additive.map((value) => (value ? "−inf" : "0")),
  "Weights, after the softmax": numbers.weights[readTable(state).t].map((weight) => number(weight)),
});

/** Find the cell at a point of a table. */
function cellAt([x, y], { queries, keys, wrong }) {
  const [t, s] = [Math.floor((y - TOP) / CELL), Math.floor((x - LEFT) / CELL)];
  return !wrong && t >= 0 && t < queries.length && s >= 0 && s < keys.length ? [t, s] : undefined;
}

/** Open or block some cells; the cursor moves to the last one. */
function paint(state, places, open) {
  const { keys } = readTable(state);
  const mask = makeMask(state, MOST, Array.from({ length: MOST }, (_, s) => keys[s])); // words may be added
  places.forEach(([t, s]) => { mask[t][s] = open; });
  const [row, column] = places.at(-1);
  return { mask: "your own", cells: mask.map((each) => each.map(Number).join("")), row, column };
}

/** List the cells from one to another, without the first, so that a fast drag skips none. */
function between([t0, s0], [t1, s1]) {
  const steps = Math.max(Math.abs(t1 - t0), Math.abs(s1 - s0));
  const at = (from, to, n) => Math.round(from + ((to - from) * (n + 1)) / steps);
  return Array.from({ length: steps }, (_, n) => [at(t0, t1, n), at(s0, s1, n)]);
}

let stroke; // of a pointer that is down: its last cell, and whether it opens cells

function dragCells(point, state, phase) {
  const here = cellAt(point, readTable(state));
  if (phase === "down") stroke = undefined;
  if (!here) return undefined;
  const [t, s] = here;
  const places = stroke ? between(stroke.last, here) : [here];
  const open = stroke ? stroke.open : !makeMask(state, MOST, readTable(state).keys)[t][s];
  stroke = { last: here, open };
  return places.length ? paint(state, places, open) : undefined;
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function moveCursor(key, state) {
  const { queries, keys, t, s, wrong } = readTable(state);
  if (wrong || !STEPS[key]) return undefined;
  const inside = (value, list) => Math.min(Math.max(value, 0), list.length - 1);
  return { row: inside(t + STEPS[key][0], queries), column: inside(s + STEPS[key][1], keys) };
}

function pressKey(key, state) {
  const { keys, t, s, wrong } = readTable(state);
  if (key !== " " || wrong) return moveCursor(key, state);
  return paint(state, [[t, s]], !makeMask(state, MOST, keys)[t][s]);
}

const WARNING = ["!", { style: "fill: var(--future); font-weight: 700; font-size: 18px" }];
const MASK = {
  label: "mask: move with the arrow keys, open or block a cell with the space bar",
  draw: (state, numbers) => {
    const { t: row, s: column } = readTable(state);
    const sign = (t, s) => (leaks(state, t, s) ? WARNING : ["✓"]);
    return [table(state, numbers, sign), frame(row, column, 1, "var(--ink)", 7)];
  },
  drag: dragCells,
  keys: pressKey,
  valueText: (state, { mask }) => {
    const { queries, keys, t, s } = readTable(state);
    return `${queries[t]} ${mask[t][s] ? "may" : "may not"} look at ${keys[s]}`;
  },
};

const WEIGHTS = {
  label: "weights: choose a row with the arrow keys",
  draw: (state, numbers) => table(state, numbers, (t, s) => {
    const weight = numbers.weights[t][s];
    return [number(weight), { fill: shade(0.55 * weight) }]; // pale enough for its number
  }),
  drag: (point, state) => {
    const [row, column] = cellAt(point, readTable(state)) ?? [];
    return row === undefined ? undefined : { row, column };
  },
  keys: moveCursor,
  valueText: (state, { weights }) => {
    const { queries, keys, t } = readTable(state);
    return `${queries[t]}: ${keys.map((key, s) => `${key} ${number(weights[t][s])}`).join(", ")}`;
  },
};

const quoted = (word) => `“${short(word)}”`;

function describe(state, { mask, weights, leaked }) {
  const { queries, keys, t } = readTable(state);
  const open = mask.map((row) => row.filter(Boolean).length);
  const best = weights[t].indexOf(Math.max(...weights[t]));
  const leaking = queries.flatMap((word, n) =>
    (mask[n].some((each, s) => each && leaks(state, n, s)) ? `${quoted(word)} ${number(leaked[n])}` : []));
  const empty = queries.filter((_, n) => !open[n]);
  const unknown = [...new Set([...queries, ...keys])].filter((word) => !Object.hasOwn(state.layer.embedding, word));
  const isUseless = state.attention === CROSS && ["causal", "both"].includes(state.mask);
  return [
    `${mask.flat().filter(Boolean).length} of ${mask.flat().length} cells are open.`,
    ` ${quoted(queries[t])} may look at ${open[t]} of ${keys.length} keys`,
    open[t] ? `, and its largest weight, ${number(weights[t][best])}, goes to ${quoted(keys[best])}.` : ".",
    leaking.length && `\nThe future leaks (! in a red frame). Weight on later positions: ${leaking.join(", ")}.`,
    empty.length && `\nNothing is open for ${empty.map(quoted).join(", ")}: our weights are 0 there, `,
    empty.length && "those of nn.MultiheadAttention are nan.",
    queries[t] === PADDING && "\nThis query is padding, so its output is never used.",
    isUseless && "\nThe causal mask hides words of the source, although all of it is known.",
    unknown.length && `\nThe layer does not know ${unknown.map(quoted).join(", ")} and uses the vector of [unk].`,
  ].filter(Boolean).join("");
}

const SIZE = [328, 466];
const VIEW = {
  defaults: DEFAULTS,
  data: ["layer"],
  panes: [
    { name: "the mask, and its chosen row in two conventions", size: SIZE, draw: drawMask, handles: [MASK] },
    { name: "the weights, and the chosen row of the additive mask", size: SIZE, draw: drawWeights, handles: [WEIGHTS] },
  ],
  controls: {
    presets: {
      label: "mask",
      kind: "buttons",
      options: {
        "causal": { attention: DECODER, mask: "causal" },
        "padding": { mask: "padding" },
        "both": { attention: DECODER, mask: "both" },
        "cross": { attention: CROSS, mask: "padding" },
        "nothing blocked": { mask: "nothing blocked" },
      },
    },
    attention: { label: "attention", kind: "choice", options: [ENCODER, DECODER, CROSS] },
    source: { label: "source words ([pad] is padding)", kind: "text" },
    target: { label: "target words", kind: "text" },
  },
  disabled: ({ attention }) => ({ [ENCODER]: ["target"], [DECODER]: ["source"] })[attention],
  compute,
  describe,
};

export default { render: ({ model, el }) => mount(model, el, VIEW) };
