// The heads of the trained translator: look at each, and switch off those that it does not need.
import { line, mount, number, shade, svg, text } from "./explorer.js";
import { Translator, readNumber, spell } from "./translator.js";

export const DEFAULTS = { text: "345", chosen: ["cross", 1, 0], off: [] };
const WEIGHTS = "translator.safetensors"; // on the site, next to this module
const PLACES = { encoder: "encoder self-attention", decoder: "decoder self-attention", cross: "cross-attention" };
const SIZE = [300, 464]; // of both panes
const MAP = { left: 118, top: 152, size: 180 };
const SMALL = { top: 62, size: 46, across: 75, down: 70 };
const SHADES = 8; // of a small map

/** Compute the weights of the chosen head, and whether the translation is right. */
export function compute({ text: typed, chosen, off, reading }) {
  const right = spell(readNumber(typed), "de");
  if (!reading.maps) throw new Error(reading.problem || "The translator is not ready yet.");
  const on = allHeads(reading).length - off.length;
  return { weights: mapOf(reading, chosen), on, right: reading.text === right };
}

/** List all heads as [place, layer, head], as the picture shows them. */
const allHeads = ({ maps }) =>
  Object.keys(PLACES).flatMap((place) =>
    maps[place].flatMap((heads, layer) => heads.map((_, head) => [place, layer, head])));
const find = (heads, where) => heads.findIndex((each) => `${each}` === `${where}`);
const isOff = ({ off }, where) => find(off, where) >= 0;
const mapOf = ({ maps }, [place, layer, head]) => maps[place][layer][head];
const nameOf = ([place, layer, head]) => `head ${head}, ${PLACES[place]}, layer ${layer}`;
const isCurrent = ({ text: typed, off, reading }) =>
  reading.words === spell(readNumber(typed), "en") && `${reading.off}` === `${off}`;

/** Say whether a text is a number; if not, compute says what is wrong with it. */
function isNumber(typed) {
  try {
    return readNumber(typed) >= 0;
  } catch {
    return false;
  }
}

/** Pair the letters of two texts with as few differences as possible; a gap is "". */
export function pairLetters(written, right) {
  if (written && written[0] === right[0])
    return [[written[0], right[0]], ...pairLetters(written.slice(1), right.slice(1))];
  const costs = Array.from({ length: written.length + 1 }, (_, n) =>
    Array.from({ length: right.length + 1 }, (_, m) => n + m));
  const replaced = (n, m) => costs[n - 1][m - 1] + (written[n - 1] === right[m - 1] ? 0 : 1);
  for (let n = 1; n <= written.length; n++)
    for (let m = 1; m <= right.length; m++)
      costs[n][m] = Math.min(replaced(n, m), costs[n - 1][m] + 1, costs[n][m - 1] + 1);
  const pairs = [];
  let [n, m] = [written.length, right.length];
  while (n || m) {
    if (n && m && costs[n][m] === replaced(n, m)) pairs.push([written[--n], right[--m]]);
    else if (n && costs[n][m] === costs[n - 1][m] + 1) pairs.push([written[--n], ""]);
    else pairs.push(["", right[--m]]);
  }
  return pairs.reverse();
}

/** Draw what the translator writes above what is right; changed letters are red and underlined. */
function drawLetters(written, right) {
  const pairs = pairLetters(written, right);
  const lines = Math.min(Math.ceil(pairs.length / 34), 3);
  const count = Math.max(Math.ceil(pairs.length / lines), 25);
  const [step, pitch] = [248 / count, [0, 22, 18, 15][lines]];
  const style = `font-family: monospace; font-size: ${Math.min(1.65 * step, pitch)}px;`;
  const red = `${style} font-weight: 700; fill: var(--future);`;
  const letters = pairs.map(([ours, theirs], n) => {
    const x = 52 + ((n % count) + 0.5) * step;
    const y = 40 + Math.floor(n / count) * (2 * pitch + 6);
    const changed = ours !== theirs;
    return [
      text(x, y, ours, { anchor: "middle", style: changed ? red : style }),
      text(x, y + pitch, theirs, { anchor: "middle", style }),
      changed ? line(x - step / 2, y + 4, x + step / 2, y + 4, { style: "stroke: var(--future); stroke-width: 2" }) : [],
    ];
  });
  const spoken = `Written: ${written || "nothing"}. Right: ${right}.`;
  const labels = [text(0, 40, "written"), text(0, 40 + pitch, "right")];
  return svg("g", { role: "img", "aria-label": spoken }, labels, letters);
}

/** Name the queries and the keys of the chosen place; the decoder's queries by what they write. */
function tokensOf({ chosen: [place], reading: { source, written } }) {
  const keys = place === "decoder" ? ["[bos]", ...written.slice(0, -1)] : source;
  return { queries: place === "encoder" ? source : written, keys };
}

function drawMap(state, { weights }) {
  const { left, top, size } = MAP;
  const { queries, keys } = tokensOf(state);
  const [place] = state.chosen;
  const [high, wide] = [size / queries.length, size / keys.length];
  const short = (token) => (token.length > 11 ? `${token.slice(0, 10)}…` : token);
  const turned = (x, y, words, anchor) => text(0, 0, words, { anchor, transform: `translate(${x} ${y}) rotate(-90)` });
  const cell = (weight, t, s) => {
    const [x, y] = [left + s * wide, top + t * high];
    const masked = place === "decoder" && s > t;
    const style = `fill: var(${weight > 0.5 ? "--paper" : "--ink"})`;
    return [
      svg("rect", { x, y, width: wide, height: high, fill: masked ? "var(--masked)" : shade(weight), stroke: "var(--faint)" }),
      masked ? line(x, y, x + wide, y + high) : [],
      !masked && wide > 30 ? text(x + wide / 2, y + high / 2 + 5, number(weight), { anchor: "middle", style }) : [],
    ];
  };
  return [
    text(0, top - 14, nameOf(state.chosen).replace("h", "H"), { class: "title" }),
    weights.map((row, t) => row.map((weight, s) => cell(weight, t, s))),
    queries.map((token, t) => text(left - 6, top + (t + 0.5) * high + 5, short(token), { anchor: "end" })),
    keys.map((token, s) => turned(left + (s + 0.5) * wide + 5, top + size + 6, short(token), "end")),
    turned(12, top + size / 2, `query: ${place === "encoder" ? "reading" : "about to write"}`, "middle"),
    text(left + size / 2, top + size + 112, `key: ${place === "decoder" ? "written so far" : "English token"}`, { anchor: "middle" }),
  ];
}

function drawAnswer(state, numbers) {
  const { words, text: written, problem } = state.reading;
  const verdict = `The translation is ${numbers.right ? "right ✓" : "wrong ✗"}`;
  const waiting = problem ? "There is no new translation" : "Translating…";
  return [
    text(0, 14, isCurrent(state) ? verdict : waiting, { class: "title" }),
    drawLetters(written, spell(readNumber(words), "de")),
    drawMap(state, numbers),
  ];
}

const headsPerRow = ({ maps }) => maps.cross[0].length;
const corner = (reading, index) => {
  const heads = headsPerRow(reading);
  return [(index % heads) * SMALL.across, SMALL.top + Math.floor(index / heads) * SMALL.down];
};

/** Draw a small map with its switch, whose knob is up while the head is on. */
function drawSmall(state, where, [left, top]) {
  const { size } = SMALL;
  const weights = mapOf(state.reading, where);
  const off = isOff(state, where);
  const box = { x: left, y: top, width: size, height: size };
  const cells = Array(SHADES + 2).fill(""); // a path for every shade, and one for masked cells
  weights.forEach((row, t) => row.forEach((weight, s) => {
    const [wide, high] = [size / row.length, size / weights.length];
    const level = where[0] === "decoder" && s > t ? SHADES + 1 : Math.round(weight * SHADES);
    cells[level] += `M${left + s * wide},${top + t * high}h${wide}v${high}h${-wide}z`;
  }));
  const fill = (level) => (level > SHADES ? "var(--masked)" : shade(level / SHADES));
  return [
    cells.map((d, level) => svg("path", { d, fill: fill(level), opacity: off ? 0.25 : 1 })),
    svg("rect", { ...box, fill: "none", stroke: "var(--line)" }),
    off ? [line(left, top, left + size, top + size), line(left, top + size, left + size, top)] : [],
    svg("rect", { x: left + size + 5, y: top + 5, width: 16, height: 36, rx: 8, stroke: "var(--ink)", fill: off ? "none" : "var(--value)" }),
    svg("circle", { cx: left + size + 13, cy: top + (off ? 33 : 13), r: 5, stroke: "var(--ink)", fill: `var(${off ? "--ink" : "--paper"})` }),
  ];
}

function drawGrid(state, { on }) {
  const all = allHeads(state.reading);
  return [
    text(0, 14, `${on} of ${all.length} heads are on`, { class: "title" }),
    text(0, 34, `How few are enough? Your record: ${state.reading.record ?? "none yet"}`),
    all.map((where, index) => {
      const [x, y] = corner(state.reading, index);
      const [place, layer, head] = where;
      return [head ? [] : text(x, y - 5, `${PLACES[place]}, layer ${layer}`), drawSmall(state, where, [x, y])];
    }),
  ];
}

const toggle = (state, where) => {
  const others = state.off.filter((each) => `${each}` !== `${where}`);
  return { chosen: where, off: isOff(state, where) ? others : [...others, where] };
};

const HEADS = {
  label: "heads: choose one with the arrow keys, and switch it with Space",
  draw: ({ reading, chosen }) => {
    const all = allHeads(reading);
    const [x, y] = corner(reading, find(all, chosen));
    const size = SMALL.size + 4;
    const height = corner(reading, all.length - 1)[1] - SMALL.top + SMALL.size + 22;
    return [
      svg("rect", { x: 0, y: SMALL.top - 18, width: SIZE[0], height, fill: "transparent" }),
      svg("rect", { x: x - 2, y: y - 2, width: size, height: size, fill: "none", style: "stroke: var(--ink); stroke-width: 4" }),
    ];
  },
  drag: ([x, y], state, kind) => {
    const heads = headsPerRow(state.reading);
    const column = Math.min(Math.max(Math.floor(x / SMALL.across), 0), heads - 1);
    const where = allHeads(state.reading)[heads * Math.floor((y - SMALL.top) / SMALL.down) + column];
    const onMap = x - column * SMALL.across <= SMALL.size;
    if (!where || (!onMap && kind === "move")) return undefined;
    return onMap ? { chosen: where } : toggle(state, where);
  },
  keys: (key, state) => {
    if (key === " " || key === "o") return toggle(state, state.chosen);
    const heads = headsPerRow(state.reading);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[key];
    const all = allHeads(state.reading);
    return step && { chosen: all[find(all, state.chosen) + step] ?? state.chosen };
  },
  valueText: (state) => `${nameOf(state.chosen)}, ${isOff(state, state.chosen) ? "off" : "on"}`,
};

function describe(state, { weights, right }) {
  const { words, text: german, written, problem } = state.reading;
  if (!isCurrent(state)) return problem || "The translator is at work. Before its first answer, it has 2 MB to load.";
  const cut = written.at(-1) === "[eos]" ? "" : `, cut after ${written.length} tokens`;
  const { queries, keys } = tokensOf(state);
  const rows = state.chosen[0] === "decoder" && weights.length > 1 ? weights.slice(1) : weights; // the first row has one key
  const top = Math.max(...rows.flat());
  const row = rows.findIndex((each) => each.includes(top)) + weights.length - rows.length;
  return `“${words}” becomes ${german ? `“${german}”` : "nothing"}${cut}, which is ${right ? "right" : "wrong"}. ` +
    `The large map shows ${HEADS.valueText(state)}: its largest weight is ${number(top)}, ` +
    `${state.chosen[0] === "encoder" ? "reading" : "about to write"} “${queries[row]}”, on “${keys[weights[row].indexOf(top)]}”.`;
}

/** Give a model its readings: the kernel's in a notebook, on the site those of the translator here. */
function withReadings(model, el) {
  const records = {}; // by number, the fewest heads that were on when it came out right
  const redraws = [];
  const kernel = model.get("kernel");
  let [reading, translator, loading, problem] = [model.get("reading"), undefined, undefined, ""];
  const load = () => {
    loading ??= fetch(new URL(WEIGHTS, import.meta.url))
      .then((response) => response.arrayBuffer())
      .then((buffer) => {
        translator = new Translator(buffer);
        if (translator.checksum !== `${reading.checksum}`) reading = {}; // of another training run
      })
      .catch(() => { problem = "The translator could not be loaded. To try again, load the page again."; })
      .then(() => redraws.forEach((redraw) => redraw()));
  };
  const translate = (typed, off) => {
    if (isCurrent({ text: typed, off, reading })) return;
    load();
    const words = spell(readNumber(typed), "en");
    if (translator) reading = { ...translator.translate(words, off), words, off, checksum: translator.checksum };
  };
  const read = () => {
    if (kernel) reading = model.get("reading");
    else if (isNumber(model.get("text"))) translate(model.get("text"), model.get("off"));
    const { maps, words, text: written, off } = reading;
    if (maps && written === spell(readNumber(words), "de"))
      records[words] = Math.min(records[words] ?? Infinity, allHeads(reading).length - off.length);
    return { ...reading, problem, record: records[words] };
  };
  if (!kernel) ["pointerenter", "focusin"].forEach((event) => el.addEventListener(event, load));
  return {
    get: (name) => (name === "reading" ? read() : model.get(name)),
    set: (name, value) => name !== "reading" && model.set(name, value),
    on: (event, listener) => {
      if (event === "change:reading") redraws.push(listener);
      model.on(event, listener);
    },
    save_changes: () => model.save_changes(),
  };
}

const VIEW = {
  defaults: { ...DEFAULTS, reading: {} },
  panes: [
    { name: "the translation, and the map of one head", size: SIZE, draw: drawAnswer },
    { name: "all heads, each with a switch", size: SIZE, draw: drawGrid, handles: [HEADS] },
  ],
  controls: { text: { label: "a number, in digits or English words", kind: "text" } },
  compute,
  describe,
};

export default { render: ({ model, el }) => mount(withReadings(model, el), el, VIEW) };
