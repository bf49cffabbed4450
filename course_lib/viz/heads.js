// The heads of the trained translator: look at each, and switch off those that it does not need.
import { mount } from "./explorer.js";
import { cut, number, range } from "./numbers.js";
import { disc, rect, shade, svg, table, text } from "./shapes.js";
import { readNumber, spell, Translator } from "./translator.js";

export const DEFAULTS = { text: "345", chosen: ["cross", 1, 0], off: [] };
const FILE = "translator.safetensors"; // on the site, next to this module
const PLACES = {
  encoder: "encoder self-attention",
  decoder: "decoder self-attention",
  cross: "cross-attention",
};
const records = {}; // by number, the fewest heads that were on when it came out right
let translator; // of the site; in a notebook, the kernel translates
let newest = {}; // what it wrote last
let problem = "";

/** Return a translation and its maps: the kernel's, or that of the translator here. */
function read({ text: typed, off, reading }) {
  if (!translator) return reading;
  const words = spell(readNumber(typed), "en");
  if (newest.words !== words || `${newest.off}` !== `${off}`)
    newest = { ...translator.translate(words, off), words, off };
  return newest;
}

/** All heads as [place, layer, head], as the picture shows them. */
const HEADS = Object.keys(PLACES).flatMap((place) =>
  range(8).map((n) => [place, Math.floor(n / 4), n % 4]),
);
const isSame = (one, other) => `${one}` === `${other}`;
const isOff = ({ off }, where) => off.some((each) => isSame(each, where));
const mapOf = (state, [place, layer, head]) => read(state).maps[place][layer][head];
const nameOf = ([place, layer, head]) => `head ${head}, ${PLACES[place]}, layer ${layer}`;
const recordOf = (state) => records[read(state).words];
const isCurrent = (state) =>
  read(state).words === spell(readNumber(state.text), "en") && isSame(read(state).off, state.off);

/** Compute the weights of the chosen head, and whether the translation is right. */
export function compute(state) {
  const right = read(state).text === spell(readNumber(state.text), "de");
  const on = HEADS.length - state.off.length;
  if (right && isCurrent(state)) records[read(state).words] = Math.min(recordOf(state) ?? on, on);
  return { weights: mapOf(state, state.chosen), on, right };
}

/** Pair the letters of two texts with as few differences as possible; a gap is "". */
export function pairLetters(written, right) {
  const differences = {}; // of what is left of both texts
  const count = (n, m) => {
    if (n > written.length || m > right.length) return Infinity;
    if (n === written.length || m === right.length) return written.length - n + right.length - m;
    if (written[n] === right[m]) return count(n + 1, m + 1);
    differences[[n, m]] ??= 1 + Math.min(count(n + 1, m + 1), count(n + 1, m), count(n, m + 1));
    return differences[[n, m]];
  };
  const pairs = [];
  for (let n = 0, m = 0; n < written.length || m < right.length; ) {
    const left = count(n, m) - (written[n] === right[m] ? 0 : 1);
    if (count(n + 1, m + 1) === left) pairs.push([written[n++], right[m++]]);
    else if (count(n + 1, m) === left) pairs.push([written[n++], ""]);
    else pairs.push(["", right[m++]]);
  }
  return pairs;
}

/** Draw what the translator writes above what is right; letters that differ are red. */
function drawLetters(written, right) {
  const [perLine, step] = [34, 7.3];
  const letters = pairLetters(written, right).map(([ours, theirs], n) => {
    const [x, y] = [56 + (n % perLine) * step, 38 + Math.floor(n / perLine) * 38];
    const look = ours === theirs ? "mono middle" : "mono middle future bold underlined";
    return [text(x, y, ours || "_", look), text(x, y + 17, theirs, "mono middle")];
  });
  const label = `Written: ${written || "nothing"}. Right: ${right}.`;
  const labels = [text(0, 38, "written"), text(0, 55, "right")];
  return svg("g", { role: "img", "aria-label": label }, labels, letters);
}

/** Name the queries and the keys of the chosen place; the decoder's queries by what they write. */
function tokensOf(state) {
  const { source, written } = read(state);
  const [place] = state.chosen;
  const keys = place === "decoder" ? ["[bos]", ...written.slice(0, -1)] : source;
  return { queries: place === "encoder" ? source : written, keys };
}

/** Draw the weights of a head; what its mask blocks is gray. */
function drawWeights(weights, [place], left, top, size) {
  const [rows, columns] = [weights.length, weights[0].length];
  const at = table(left, top, size, size, rows, columns);
  const color = (t, s) => (place === "decoder" && s > t ? "var(--masked)" : shade(weights[t][s]));
  return [at, at.map(color, size > 100 ? "edged" : "")];
}

function drawAnswer(state, { weights, right }) {
  const { queries, keys } = tokensOf(state);
  const [at, map] = drawWeights(weights, state.chosen, 104, 236, 176);
  const waiting = problem ? "There is no new translation" : "Translating…";
  const verdict = `The translation is ${right ? "right ✓" : "wrong ✗"}`;
  const value = (weight, t, s) => at.write(t, s, number(weight));
  const [place] = state.chosen;
  const short = (token) => cut(token, 9);
  const query = place === "encoder" ? "English token" : "about to write";
  const key = place === "decoder" ? "written so far" : "English token";
  return [
    text(0, 14, isCurrent(state) ? verdict : waiting, "title"),
    isCurrent(state) && drawLetters(read(state).text, spell(readNumber(state.text), "de")),
    text(0, 152, nameOf(state.chosen).replace("h", "H"), "title"),
    at.words(queries.map(short), keys.map(short)),
    map,
    keys.length < 7 && weights.map((row, t) => row.map((weight, s) => value(weight, t, s))),
    text(0, 440, `Query ↓: ${query}. Key →: ${key}.`),
  ];
}

const GRID = table(0, 62, 300, 420, 6, 4); // of the heads
const SMALL = 46; // pixels of a map; its switch is to the right

/** Draw a small map with its switch, whose knob is up while the head is on. */
function drawSmall(state, where, n) {
  const [place, layer, head] = where;
  const off = isOff(state, where);
  const [x, y] = [GRID.x(head), GRID.y(GRID.cells[n][0])];
  const [, map] = drawWeights(mapOf(state, where), where, x, y, SMALL);
  return [
    head === 0 && text(x, y - 5, `${PLACES[place]}, layer ${layer}`),
    svg("g", off ? "pale" : "", map),
    rect(x, y, SMALL, SMALL, "line open"),
    rect(x + 51, y + 5, 16, 36, { class: off ? "open" : "value edged", rx: 8 }),
    disc(x + 59, y + (off ? 33 : 13), 5, off ? "" : "paper"),
  ];
}

const drawHeads = (state, { on }) => [
  text(0, 14, `${on} of ${HEADS.length} heads are on`, "title"),
  text(0, 34, `How few are enough? Your record: ${recordOf(state) ?? "none yet"}`),
  HEADS.map((where, n) => drawSmall(state, where, n)),
];

const toggle = (state, where) => {
  const others = state.off.filter((each) => !isSame(each, where));
  return { chosen: where, off: isOff(state, where) ? others : [...others, where] };
};

const placeOf = ({ chosen }) => HEADS.findIndex((each) => isSame(each, chosen));
const SWITCHES = {
  label: "heads: choose one with the arrow keys, and switch it with Space",
  look: "scrolls",
  draw: (state) => {
    const [row, column] = GRID.cells[placeOf(state)];
    const frame = rect(GRID.x(column) - 2, GRID.y(row) - 2, 50, 50, "open thick");
    return [rect(0, 44, 300, 420, "clear"), frame];
  },
  drag: (point, state, phase) => {
    const where = HEADS[GRID.find(point)];
    if (where && point[0] - GRID.x(where[2]) <= SMALL) return { chosen: where };
    return where && phase === "down" && toggle(state, where);
  },
  keys: (step, state) => {
    const [row, column] = GRID.move(GRID.cells[placeOf(state)], step);
    return { chosen: HEADS[4 * row + column] };
  },
  press: (state) => toggle(state, state.chosen),
  valueText: (state) =>
    `${nameOf(state.chosen)}, which is ${isOff(state, state.chosen) ? "off" : "on"}`,
};

function describe(state, { weights, right }) {
  if (!isCurrent(state))
    return [problem || "The translator works. Before its first answer, it has 2 MB to load."];
  const { words, text: german } = read(state);
  const { queries, keys } = tokensOf(state);
  const first = state.chosen[0] === "decoder" && weights.length > 1 ? 1 : 0; // row 0 has one key
  const rows = weights.slice(first);
  const top = Math.max(...rows.flat());
  const row = rows.findIndex((each) => each.includes(top));
  return [
    `“${words}” becomes ${german ? `“${german}”` : "nothing"},`,
    `which is ${right ? "right" : "wrong"}.`,
    `The large map shows ${SWITCHES.valueText(state)}. Its largest weight is ${number(top)}:`,
    `the query “${queries[first + row]}” looks at the key “${keys[rows[row].indexOf(top)]}”.`,
  ];
}

const SIZE = [300, 464];
const VIEW = {
  defaults: DEFAULTS,
  data: ["reading", "loaded"],
  panes: [
    { name: "the translation, and the map of one head", size: SIZE, draw: drawAnswer },
    { name: "all heads, each with a switch", size: SIZE, draw: drawHeads, handles: [SWITCHES] },
  ],
  controls: { text: { label: "a number below one million", kind: "text" } },
  compute,
  describe,
};

/** Load the translator of the site, and draw again with it. */
async function load(model) {
  try {
    const response = await fetch(new URL(FILE, import.meta.url));
    translator = new Translator(await response.arrayBuffer());
  } catch {
    problem = "The translator could not be loaded. To try again, load the page again.";
  }
  model.set("loaded", true);
}

function render({ model, el }) {
  mount(model, el, VIEW);
  let isLoading = model.get("kernel");
  const start = () => {
    if (!isLoading) load(model);
    isLoading = true;
  };
  for (const event of ["pointerenter", "focusin"]) el.addEventListener(event, start);
}

export default { render };
