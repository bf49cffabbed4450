// Masks: open and block cells, and see what each word may look at and what leaks from the future.
import { explorer } from "./explorer.js";
import { cut, dot, number, range, sinusoid, softmax, sum } from "./numbers.js";
import { inkOn, shade, table, text } from "./shapes.js";

const DECODER = "decoder self-attention";
const SIDES = {
  "encoder self-attention": ["source", "source"], // of the queries and of the keys
  [DECODER]: ["target", "target"],
  "cross-attention": ["target", "source"],
};
const PADDING = "[pad]";
const MOST = 6; // words on each side
const RULES = {
  causal: (t, s) => s <= t,
  padding: (_t, _s, key) => key !== PADDING,
  both: (t, s, key) => s <= t && key !== PADDING,
  "nothing blocked": () => true,
};

const short = (word) => cut(word, 8);
const quoted = (word) => `“${short(word)}”`;
const split = (sentence) => sentence.split(/\s+/).filter(Boolean);
const isUnused = ({ attention }, side) => !SIDES[attention].includes(side);
const layOut = (y, high, rows, columns) => table(70, y, 39 * columns, high * rows, rows, columns);

/** Return the words, the open cells (for up to `MOST` words), the cursor and the table. */
function read({ attention, mask, cells, row, column, ...words }) {
  const [queries, keys] = SIDES[attention].map((side) => split(words[side]));
  const mayLook = RULES[mask] ?? ((t, s) => cells[t][s] === "1"); // or “your own”
  const open = range(MOST).map((t) => range(MOST).map((s) => mayLook(t, s, keys[s])));
  /** Return whether a cell shows a decoder word a token that it must predict. */
  const leaks = ([t, s]) => open[t][s] && s > t && attention === DECODER && queries[t] !== PADDING;
  const [t, s] = [Math.min(row, queries.length - 1), Math.min(column, keys.length - 1)];
  return { queries, keys, open, leaks, t, s, at: layOut(92, 39, queries.length, keys.length) };
}

/** Embed words, add their positional encodings, and project them to queries or keys. */
function project({ layer, attention }, words, name) {
  return words.map((word, position) => {
    const known = layer.embedding[Object.hasOwn(layer.embedding, word) ? word : "[unk]"];
    const vector = known.map((value, n) => value / 100 + sinusoid(position, n, known.length));
    return layer[attention][name].map((row) => dot(row, vector) / 100);
  });
}

/** Compute the mask, its chosen row in two other conventions, the weights, and all leaks. */
export function compute(state) {
  for (const side of SIDES[state.attention]) {
    const count = split(state[side]).length;
    const advice = `Type 1 to ${MOST} words with spaces between them.`;
    if (count < 1 || count > MOST) throw new Error(`The ${side} has ${count} words. ${advice}`);
  }
  const { queries, keys, open, leaks, t: chosen } = read(state);
  const mask = open.slice(0, queries.length).map((row) => row.slice(0, keys.length));
  const offered = project(state, keys, "w_k");
  const weights = project(state, queries, "w_q").map((query, t) => {
    const score = (key, s) => (mask[t][s] ? dot(query, key) / Math.sqrt(query.length) : -Infinity);
    return softmax(offered.map(score));
  });
  const leaked = weights.map((row, t) => sum(row.filter((_, s) => leaks([t, s]))));
  const blocked = mask[chosen].map((isOpen) => !isOpen);
  const additive = blocked.map((each) => (each ? -Infinity : 0));
  return { mask, weights, leaked, blocked, additive };
}

const colored = (isOpen, color = "var(--paper)") => (isOpen ? color : "var(--masked)");
const PRINTED = { true: "True", false: "False", 0: "0", "-Infinity": "−inf" };

/** Draw the chosen row in three conventions, below its table. */
function drawRow({ queries, keys, t, at }, { mask, blocked, additive }) {
  const below = at.y(queries.length);
  const rows = layOut(below + 54, 28, 3, keys.length);
  const conventions = [mask[t], blocked, additive];
  return [
    text(0, below + 24, `The row of ${quoted(queries[t])} in three conventions:`),
    text(0, below + 44, "ours, of nn.MultiheadAttention, and additive"),
    rows.words(["may look", "blocked", "added"], []),
    rows.map((_, s) => colored(mask[t][s]), "edged"),
    rows.cells.map(([row, s]) => rows.write(row, s, PRINTED[conventions[row][s]])),
  ];
}

/** Draw the mask or the weights as a table; leaks are red, and the chosen row is blue. */
function drawTable({ queries, keys, open, leaks, t: chosen, at }, title, weights) {
  const sign = (cell) => (leaks(cell) ? ["!", "future bold"] : ["✓"]);
  const words = (t, s) => (weights ? [number(weights[t][s]), inkOn(weights[t][s])] : sign([t, s]));
  const color = (t, s) => colored(open[t][s], weights && shade(weights[t][s]));
  return [
    at.map(color, "edged"),
    at.cells.map(([t, s]) => at.write(t, s, ...(open[t][s] ? words(t, s) : [""]))),
    at.cells.filter(leaks).map(([t, s]) => at.box(t, s, "future open thick")),
    at.box(chosen, 0, "query open thick", { across: keys.length, more: 2 }),
    at.words(queries.map(short), keys.map(short)),
    text(0, 16, title, "title"),
    text(62, 66, "key →", "end"),
    text(62, 84, "query ↓", "end"),
  ];
}

const goTo = (cell) => cell && { row: cell[0], column: cell[1] };

/** Open or block some cells; the cursor moves to the first. */
function paint(open, places, isOpening) {
  const cells = open.map((row) => row.map(Number));
  for (const [t, s] of places) cells[t][s] = Number(isOpening);
  return { mask: "your own", cells: cells.map((row) => row.join("")), ...goTo(places[0]) };
}

let isOpening; // whether the pressed pointer opens or blocks cells

/** Open or block all cells between pointer and cursor, as the pointer did with the first one. */
function dragCells(point, { at, open, t, s }, phase) {
  const here = at.cells[at.find(point)];
  if (phase === "down") isOpening = here && !open[here[0]][here[1]];
  if (!here || isOpening === undefined) return undefined;
  const back = phase === "down" ? [0, 0] : [t - here[0], s - here[1]];
  const steps = Math.max(1, ...back.map(Math.abs)); // a fast drag skips no cell
  const passed = (n) => here.map((place, axis) => Math.round(place + (back[axis] * n) / steps));
  return paint(open, range(steps).map(passed), isOpening);
}

const MASK = {
  label: "mask: move with the arrow keys, open or block a cell with the space bar",
  look: "scrolls",
  draw: (state) => [
    drawTable(state, "Choose a cell to open or block it"),
    state.at.box(state.t, state.s, "open thick", { more: -7 }),
  ],
  drag: dragCells,
  keys: (step, { t, s, at }) => goTo(at.move([t, s], step)),
  press: ({ open, t, s }) => paint(open, [[t, s]], !open[t][s]),
  valueText: ({ queries, keys, open, t, s }) =>
    `${queries[t]} ${open[t][s] ? "may" : "may not"} look at ${keys[s]}`,
};
const WEIGHTS = {
  label: "weights: choose a row with the arrow keys",
  look: "scrolls",
  draw: (state, { weights }) => drawTable(state, "Weights of a trained layer", weights),
  drag: (point, { at }) => goTo(at.cells[at.find(point)]),
  keys: MASK.keys,
  valueText: ({ queries, keys, t }, { weights }) =>
    `${queries[t]}: ${keys.map((key, s) => `${key} ${number(weights[t][s])}`).join(", ")}`,
};

function describe(state, { mask, weights, leaked }) {
  const { queries, keys, t } = state;
  const open = mask.map((row) => sum(row));
  const top = Math.max(...weights[t]);
  const best = quoted(keys[weights[t].indexOf(top)]);
  const largest = open[t] ? `, and its largest weight, ${number(top)}, goes to ${best}` : "";
  const numbered = queries.map((word, n) => `${quoted(word)} ${number(leaked[n])}`);
  const leaking = numbered.filter((_, n) => leaked[n] > 0);
  const empty = queries.filter((_, n) => !open[n]).map(quoted);
  const isUnknown = (word) => !Object.hasOwn(state.layer.embedding, word);
  const unknown = new Set([...queries, ...keys].filter(isUnknown).map(quoted));
  return [
    `${sum(open)} of ${mask.flat().length} cells are open.`,
    `${quoted(queries[t])} may look at ${open[t]} of ${keys.length} keys${largest}.`,
    leaking.length > 0 && "The future leaks (! in a red frame).",
    leaking.length > 0 && `Weight on later positions: ${leaking.join(", ")}.`,
    empty.length > 0 && `Nothing is open for ${empty.join(", ")}: our weights are 0 there,`,
    empty.length > 0 && "and those of nn.MultiheadAttention are nan.",
    queries[t] === PADDING && "This query is padding, so its output is never used.",
    unknown.size > 0 && `The layer uses the vector of [unk] for ${[...unknown].join(", ")}.`,
  ];
}

export default explorer({
  read,
  panes: [
    { name: "the mask, and its chosen row", size: [328, 466], draw: drawRow, handles: [MASK] },
    { name: "the weights", size: [328, 334], handles: [WEIGHTS] },
  ],
  controls: {
    attention: { label: "attention", kind: "buttons", options: Object.keys(SIDES) },
    mask: { label: "mask", kind: "buttons", options: Object.keys(RULES) },
    source: { label: "source words", kind: "text", isIdle: isUnused },
    target: { label: "target words", kind: "text", isIdle: isUnused },
  },
  compute,
  describe,
});
