// Masks: open and block cells, and see what each word may look at, and what leaks from the future.
import { explorer } from "./explorer.js";
import { cut, dot, number, range, sinusoid, softmax, sum } from "./numbers.js";
import { shade, table, text } from "./shapes.js";

const ENCODER = "encoder self-attention";
const DECODER = "decoder self-attention";
const CROSS = "cross-attention";
const SIDES = {
  [ENCODER]: ["source", "source"],
  [DECODER]: ["target", "target"],
  [CROSS]: ["target", "source"],
};
const PADDING = "[pad]";
const MOST = 6; // words of a side
const CELL = 39; // pixels
const RULES = {
  causal: (t, s) => s <= t,
  padding: (_t, _s, key) => key !== PADDING,
  both: (t, s, key) => s <= t && key !== PADDING,
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

const short = (word) => cut(word, 8);
const split = (sentence) => sentence.split(/\s+/).filter(Boolean);

/** Read queries and keys, and lay out their table; its row t and column s have the cursor. */
function read({ attention, row, column, ...words }) {
  const [queries, keys] = SIDES[attention].map((side) => split(words[side]));
  const [t, s] = [Math.min(row, queries.length - 1), Math.min(column, keys.length - 1)];
  const size = [keys.length * CELL, queries.length * CELL];
  const at = table(70, 92, ...size, queries.length, keys.length);
  return { queries, keys, t, s, at };
}

/** Say which query may look at which key, for words that may be added as well. */
function makeMask(state) {
  const { keys } = read(state);
  const { cells, mask } = state;
  const mayLook = RULES[mask] ?? ((t, s) => cells[t][s] === "1"); // or “your own”
  return range(MOST).map((t) => range(MOST).map((s) => mayLook(t, s, keys[s])));
}

/** Say whether an open cell shows a word of the decoder what it must predict. */
const leaks = ({ attention, target }, t, s) =>
  attention === DECODER && s > t && split(target)[t] !== PADDING;

/** Embed words, add their positional encodings, and project them to queries or keys. */
function project({ layer, attention }, words, name) {
  return words.map((word, position) => {
    const known = Object.hasOwn(layer.embedding, word) ? word : "[unk]";
    const vector = layer.embedding[known].map(
      (value, n, { length }) => value / 100 + Math.fround(sinusoid(position, n, length)),
    );
    return layer[attention][name].map((row) => dot(row, vector) / 100);
  });
}

/** Compute the mask, its chosen row in two other conventions, the weights, and what rows leak. */
export function compute(state) {
  for (const side of SIDES[state.attention]) {
    const count = split(state[side]).length;
    const advice = `Type 1 to ${MOST} words with spaces between them.`;
    if (count < 1 || count > MOST) throw new Error(`The ${side} has ${count} words. ${advice}`);
  }
  const { queries, keys, t: chosen } = read(state);
  const rows = makeMask(state).slice(0, queries.length);
  const mask = rows.map((row) => row.slice(0, keys.length));
  const offered = project(state, keys, "w_k");
  const weights = project(state, queries, "w_q").map((query, t) => {
    const score = (key, s) => (mask[t][s] ? dot(query, key) / Math.sqrt(query.length) : -Infinity);
    return softmax(offered.map(score));
  });
  const leaked = weights.map((row, t) => sum(row.filter((_, s) => leaks(state, t, s))));
  const blocked = mask[chosen].map((open) => !open);
  const additive = blocked.map((each) => (each ? -Infinity : 0));
  return { mask, weights, leaked, blocked, additive };
}

const colored = (mask, color) => (t, s) => (mask[t][s] ? color(t, s) : "var(--masked)");
const paper = () => "var(--paper)";

/** Draw the cells; those that leak have a red frame, and the chosen row has a blue one. */
function drawCells(state, { mask }, words, color) {
  const { keys, t: chosen, at } = state;
  const leaking = at.cells.filter(([t, s]) => mask[t][s] && leaks(state, t, s));
  return [
    at.map(colored(mask, color), "edged"),
    at.cells.map(([t, s]) => at.write(t, s, ...(mask[t][s] ? words(t, s) : [""]))),
    leaking.map(([t, s]) => at.box(t, s, "future open thick")),
    at.box(chosen, 0, "query open thick", { across: keys.length, more: 2 }),
  ];
}

const surround = ({ queries, keys, at }, title) => [
  text(0, 16, title, "title"),
  text(62, 66, "key →", "end"),
  text(62, 84, "query ↓", "end"),
  at.words(queries.map(short), keys.map(short)),
];

/** Draw the words of the mask, and below it the chosen row in three conventions. */
function drawMask(state, { mask, blocked, additive }) {
  const { queries, keys, t, at } = state;
  const below = at.y(queries.length);
  const rows = table(70, below + 54, keys.length * CELL, 84, 3, keys.length);
  const printed = [mask[t], blocked, additive.map((value) => (value ? "−inf" : "0"))];
  const named = (value) => ({ true: "True", false: "False" })[value] ?? value;
  return [
    surround(state, "Click or drag to open and block cells"),
    text(0, below + 24, `The row of “${short(queries[t])}” in three conventions:`),
    text(0, below + 44, "ours, of nn.MultiheadAttention, and additive"),
    rows.words(["may look", "blocked", "added"], []),
    rows.map(colored([mask[t], mask[t], mask[t]], paper), "edged"),
    rows.cells.map(([row, s]) => rows.write(row, s, named(printed[row][s]))),
  ];
}

/** Open or block some cells; the cursor moves to the last one. */
function paint(state, places, open) {
  const mask = makeMask(state);
  for (const [t, s] of places) mask[t][s] = open;
  const [row, column] = places.at(-1);
  return { mask: "your own", cells: mask.map((each) => each.map(Number).join("")), row, column };
}

let stroke; // of a pointer that is down: its last cell, and whether it opens cells

/** Open or block all cells on the way of the pointer, as it did with the first. */
function dragCells(point, state, phase) {
  const { at } = state;
  const here = at.cells[at.find(point)];
  if (phase === "down") stroke = undefined;
  if (!here) return undefined;
  const { last, open } = stroke ?? { last: here, open: !makeMask(state)[here[0]][here[1]] };
  const steps = Math.max(...here.map((place, axis) => Math.abs(place - last[axis])));
  const passed = (n) => here.map((end, axis) => Math.round(end - ((end - last[axis]) * n) / steps));
  const places = stroke ? range(steps).map(passed).reverse() : [here]; // a fast drag skips none
  stroke = { last: here, open };
  return places.length ? paint(state, places, open) : undefined;
}

function moveCursor(step, { t, s, at }) {
  const [row, column] = at.move([t, s], step);
  return { row, column };
}

const MASK = {
  label: "mask: move with the arrow keys, open or block a cell with the space bar",
  draw: (state, numbers) => {
    const { t, s, at } = state;
    const sign = (...cell) => (leaks(state, ...cell) ? ["!", "future bold"] : ["✓"]);
    return [drawCells(state, numbers, sign, paper), at.box(t, s, "open thick", { more: -7 })];
  },
  drag: dragCells,
  keys: moveCursor,
  press: (state) => paint(state, [[state.t, state.s]], !makeMask(state)[state.t][state.s]),
  valueText: ({ queries, keys, t, s }, { mask }) =>
    `${queries[t]} ${mask[t][s] ? "may" : "may not"} look at ${keys[s]}`,
};

const WEIGHTS = {
  label: "weights: choose a row with the arrow keys",
  look: "scrolls",
  draw: (state, numbers) => {
    const weight = (t, s) => numbers.weights[t][s];
    const color = (t, s) => shade(weight(t, s));
    return drawCells(state, numbers, (t, s) => [number(weight(t, s))], color);
  },
  drag: (point, { at }) => {
    const [row, column] = at.cells[at.find(point)] ?? [];
    return row >= 0 && { row, column };
  },
  keys: moveCursor,
  valueText: ({ queries, keys, t }, { weights }) =>
    `${queries[t]}: ${keys.map((key, s) => `${key} ${number(weights[t][s])}`).join(", ")}`,
};

const quoted = (word) => `“${short(word)}”`;

function describe(state, { mask, weights, leaked }) {
  const { queries, keys, t } = state;
  const open = mask.map((row) => row.filter(Boolean).length);
  const top = Math.max(...weights[t]);
  const best = quoted(keys[weights[t].indexOf(top)]);
  const isLeak = (_, n) => mask[n].some((each, s) => each && leaks(state, n, s));
  const leaking = queries.map((word, n) => `${quoted(word)} ${number(leaked[n])}`).filter(isLeak);
  const empty = queries.filter((_, n) => !open[n]).map(quoted);
  const isUnknown = (word) => !Object.hasOwn(state.layer.embedding, word);
  const unknown = [...new Set([...queries, ...keys])].filter(isUnknown).map(quoted);
  const isUseless = state.attention === CROSS && ["causal", "both"].includes(state.mask);
  const largest = open[t] ? `, and its largest weight, ${number(top)}, goes to ${best}` : "";
  const leak = `The future leaks (! in a red frame). Weight on later positions: ${leaking.join(", ")}.`;
  const nothing = `Nothing is open for ${empty.join(", ")}: our weights are 0 there,`;
  return [
    `${sum(open)} of ${mask.flat().length} cells are open.`,
    `${quoted(queries[t])} may look at ${open[t]} of ${keys.length} keys${largest}.`,
    leaking.length > 0 && leak,
    empty.length > 0 && `${nothing} those of nn.MultiheadAttention are nan.`,
    queries[t] === PADDING && "This query is padding, so its output is never used.",
    isUseless && "The causal mask hides words of the source, although all of it is known.",
    unknown.length > 0 && `The layer uses the vector of [unk] for ${unknown.join(", ")}.`,
  ];
}

const PRESETS = {
  causal: { attention: DECODER, mask: "causal" },
  padding: { mask: "padding" },
  both: { attention: DECODER, mask: "both" },
  cross: { attention: CROSS, mask: "padding" },
  "nothing blocked": { mask: "nothing blocked" },
};
const drawWeights = (state) => surround(state, "Weights of a trained layer");
export default explorer({
  defaults: DEFAULTS,
  data: ["layer"],
  read,
  panes: [
    { name: "the mask, and its chosen row", size: [328, 466], draw: drawMask, handles: [MASK] },
    { name: "the weights", size: [328, 334], draw: drawWeights, handles: [WEIGHTS] },
  ],
  controls: {
    presets: { label: "mask", kind: "buttons", options: PRESETS },
    attention: { label: "attention", kind: "choice", options: [ENCODER, DECODER, CROSS] },
    source: { label: "source words ([pad] is padding)", kind: "text" },
    target: { label: "target words", kind: "text" },
  },
  disabled: ({ attention }) => ({ [ENCODER]: ["target"], [DECODER]: ["source"] })[attention],
  compute,
  describe,
});
