// The trained translator's heads: look at each head, and switch off heads that it does not need.
import { explorer } from "./explorer.js";
import { cut, grouped, number, range } from "./numbers.js";
import { disc, rect, shade, svg, table, text } from "./shapes.js";
import { readNumber, Translator } from "./translator.js";

const PLACES = {
  // each with its name, and with descriptions of its queries and keys
  encoder: ["encoder self-attention", "English token", "English token"],
  decoder: ["decoder self-attention", "about to write", "written so far"],
  cross: ["cross-attention", "about to write", "English token"],
};
/** All heads as [place, layer, head], as the picture shows them. */
const HEADS = Object.keys(PLACES).flatMap((place) =>
  range(8).map((n) => [place, Math.floor(n / 4), n % 4]),
);
const records = {}; // for each number, the fewest heads that translated it correctly
let translator; // only on the site; in a notebook, the kernel translates
let waiting = "Translating… The first translation has to load a file of 2 MB.";

const isSame = (one, other) => `${one}` === `${other}`;
const isOff = ({ off }, where) => off.some((each) => isSame(each, where));
const stateOf = (state) => (isOff(state, state.chosen) ? "off" : "on");
const nameOf = ([place, layer, head]) => `head ${head}, ${PLACES[place][0]}, layer ${layer}`;

/** Translate, and check the translation; the kernel may not have translated yet. */
export function compute({ text: typed, chosen: [place, layer, head], off, reading }) {
  const value = readNumber(typed);
  const answer = translator ? { ...translator.translate(value, off), number: value, off } : reading;
  const { source, written, maps } = answer;
  const queries = place === "encoder" ? source : written; // decoder: named by their outputs
  const keys = place === "decoder" ? ["[bos]", ...written.slice(0, -1)] : source;
  const isCurrent = answer.number === value && isSame(answer.off, off);
  const [right, on] = [answer.text === answer.german, HEADS.length - off.length];
  if (isCurrent && right) records[value] = Math.min(records[value] ?? on, on);
  const found = { weights: maps[place][layer][head], queries, keys, isCurrent, right, on };
  return { ...answer, ...found, record: records[value] };
}

/** Count the letters that two texts share at their beginning, and then at their end. */
export function commonEnds(one, other) {
  const most = Math.min(one.length, other.length);
  let [start, end] = [0, 0];
  while (start < most && one[start] === other[start]) start++;
  while (end < most - start && one.at(-1 - end) === other.at(-1 - end)) end++;
  return [start, end];
}

/** Draw the translation above the right one; the letters between their common ends are red. */
function drawLetters(written, right) {
  const at = table(52, 24, 248, 95, 5, 34); // two pairs of lines with a gap
  const [start, end] = commonEnds(written, right);
  const draw = (words, line) =>
    [...words].map((letter, n) => {
      const look = n < start || n >= words.length - end ? "mono" : "mono future bold underlined";
      return at.write(line + 3 * Math.floor(n / 34), n % 34, letter, look);
    });
  const pairs = range(Math.ceil(Math.max(written.length, right.length) / 34));
  const names = pairs.map((n) => [text(0, 38 + 57 * n, "written"), text(0, 57 + 57 * n, "right")]);
  return svg("g", { "aria-hidden": "true" }, names, draw(written, 0), draw(right, 1));
}

/** Draw a head's weights; the cells that its mask blocks are gray. */
function drawMap([place], weights, left, top, size, look) {
  const at = table(left, top, size, size, weights.length, weights[0].length);
  const color = (t, s) => (place === "decoder" && s > t ? "var(--masked)" : shade(weights[t][s]));
  return [at, at.map(color, look)];
}

function drawAnswer(state, { text: written, german, right, isCurrent, ...numbers }) {
  const { weights, queries, keys } = numbers;
  const [at, map] = drawMap(state.chosen, weights, 104, 236, 176, "edged");
  const short = (token) => cut(token, 14);
  const write = ([t, s]) =>
    weights[t][s] >= 0.005 && at.write(t, s, number(100 * weights[t][s], 0), "small");
  const verdict = `The translation of ${grouped(numbers.number)} is ${right ? "right ✓" : "wrong ✗"}`;
  const [, query, key] = PLACES[state.chosen[0]];
  return [
    text(0, 14, isCurrent ? verdict : "There is no new translation yet", "title"),
    isCurrent && drawLetters(cut(written, 68), german), // two lines of 34 letters
    text(0, 152, `${nameOf(state.chosen).replace("h", "H")} (${stateOf(state)})`, "title"),
    at.words(queries.map(short), keys.map(short)),
    map,
    at.cells.map(write),
    text(0, 438, `Query ↓: ${query}. Key →: ${key}.`),
    text(0, 458, "Numbers are weights in %."),
  ];
}

const GRID = table(0, 62, 300, 420, 6, 4); // of the heads
const SMALL = 46; // pixels of a map; its switch is to the right

/** Draw every head as a small map, with a switch whose knob is up while the head is on. */
function drawHeads(state, { maps, on, record }) {
  const draw = (where, n) => {
    const [place, layer, head] = where;
    const [x, y] = [GRID.x(head), GRID.y(GRID.cells[n][0])];
    const [, map] = drawMap(where, maps[place][layer][head], x, y, SMALL);
    const off = isOff(state, where);
    return [
      head === 0 && text(x, y - 5, `${PLACES[place][0]}, layer ${layer}`),
      svg("g", off ? "pale" : "", map),
      rect(x, y, SMALL, SMALL, isSame(state.chosen, where) ? "open thick" : "line open"),
      rect(x + 51, y + 5, 16, 36, { class: off ? "open" : "value edged", rx: 8 }),
      disc(x + 59, y + (off ? 33 : 13), 5, off ? "" : "paper"),
    ];
  };
  return [
    text(0, 14, `${on} of ${HEADS.length} heads are on`, "title"),
    text(0, 34, `How few are enough? Your record: ${record ?? "none yet"}`),
    HEADS.map(draw),
  ];
}

const toggle = (state, where) => {
  const others = state.off.filter((each) => !isSame(each, where));
  return { chosen: where, off: isOff(state, where) ? others : [...others, where] };
};

const SWITCHES = {
  label: "heads: choose one with the arrow keys, and switch it with Space",
  look: "scrolls",
  draw: () => rect(0, 44, 300, 420, "clear"),
  drag: (point, state, phase) => {
    const where = HEADS[GRID.find(point)];
    if (where && point[0] - GRID.x(where[2]) <= SMALL) return { chosen: where };
    return where && phase === "down" && toggle(state, where);
  },
  keys: (step, { chosen }) => {
    const place = HEADS.findIndex((each) => isSame(each, chosen));
    return { chosen: HEADS[GRID.place(GRID.move(GRID.cells[place], step))] };
  },
  press: (state) => toggle(state, state.chosen),
  valueText: (state, { weights, queries, keys }) => {
    const favorite = (row) => keys[row.indexOf(Math.max(...row))];
    const looks = weights.map((row, t) => `from “${queries[t]}” to “${favorite(row)}”`);
    return `${nameOf(state.chosen)} (${stateOf(state)}); largest weights: ${looks.join(", ")}`;
  },
};

function describe(state, { text: written, german, right, isCurrent, ...numbers }) {
  if (!isCurrent) return waiting;
  return [
    `${grouped(numbers.number)} becomes ${written ? `“${written}”` : "nothing"},`,
    right ? "which is right." : `which is wrong: it should be “${german}”.`,
    `The large map shows ${nameOf(state.chosen)}, which is ${stateOf(state)}.`,
  ];
}

/** Load the site's translator, and redraw with it. */
async function load(model) {
  try {
    const file = await fetch(new URL("translator.safetensors", import.meta.url));
    translator = new Translator(await file.arrayBuffer());
  } catch {
    waiting = "The translator could not be loaded. To try again, reload the page.";
  }
  model.set("loaded", true);
}

/** Load the translator when the explorer gets the focus, unless a kernel translates. */
const start = (model, el) =>
  model.get("kernel") || el.addEventListener("focusin", () => load(model), { once: true });

const SIZE = [300, 464];
export default explorer({
  data: ["loaded"],
  panes: [
    { name: "the translation, and the map of one head", size: SIZE, draw: drawAnswer },
    { name: "all heads, each with a switch", size: SIZE, draw: drawHeads, handles: [SWITCHES] },
  ],
  controls: { text: { label: "a number below one million", kind: "text" } },
  compute,
  describe,
  start,
});
