// The trained translator's heads: look at each head, and switch off heads that it does not need.
import { explorer } from "./explorer.js";
import { cut, grouped, number, range } from "./numbers.js";
import { disc, inkOn, rect, shade, svg, table, text } from "./shapes.js";
import { readNumber, Translator } from "./translator.js";

const PLACES = {
  // each with its name, and with descriptions of its queries and keys
  encoder: ["encoder self-attention", "English token", "English token"],
  decoder: ["decoder self-attention", "about to write", "written so far"],
  cross: ["cross-attention", "about to write", "English token"],
};
const KINDS = Object.keys(PLACES);
const headsOf = (layer) => range(12).map((n) => [KINDS[Math.floor(n / 4)], layer, n % 4]);
const HEADS = [...headsOf(0), ...headsOf(1)];
const records = {}; // for each number, the fewest heads that translated it correctly
let translator; // only on the site; in a notebook, the kernel translates
let last = {}; // the newest translation, because the picture is drawn once for each of its tokens
let waiting = "Translating…";

const isSame = (one, other) => `${one}` === `${other}`;
const isOff = ({ off }, where) => off.some((each) => isSame(each, where));
const stateOf = (state) => (isOff(state, state.chosen) ? "off" : "on");
const nameOf = ([place, layer, head]) => `head ${head}, ${PLACES[place][0]}, layer ${layer}`;

/** Translate, and check the translation; the kernel may not have translated yet. */
export function compute({ text: typed, chosen: [place, layer, head], off, reading }) {
  const value = readNumber(typed);
  if (translator && !(last.number === value && isSame(last.off, off)))
    last = { ...translator.translate(value, off), number: value, off };
  const answer = translator ? last : reading;
  const { source, written, maps } = answer;
  const queries = place === "encoder" ? source : written; // named by what they write
  const keys = place === "decoder" ? ["[bos]", ...written.slice(0, -1)] : source;
  const isCurrent = answer.number === value && isSame(answer.off, off);
  const [right, on] = [answer.text === answer.german, HEADS.length - off.length];
  if (isCurrent && right) records[value] = Math.min(records[value] ?? on, on);
  const found = { weights: maps[place][layer][head], queries, keys, isCurrent, right, on };
  return { ...answer, ...found, record: records[value] };
}

/** Draw the translation above the right one; the letters between their common ends are red. */
function drawLetters({ text: written, german: right, written: tokens }, shown) {
  const long = Math.max(written.length, right.length) > 52 ? 34 : 26; // letters in a line
  const at = table(0, 24, 312, 92, 5, long); // two pairs of lines with a gap
  const most = Math.min(written.length, right.length);
  let [start, end] = [0, 0];
  while (start < most && written[start] === right[start]) start++;
  while (end < most - start && written.at(-1 - end) === right.at(-1 - end)) end++;
  const parts = tokens.slice(0, shown).filter((token) => !token.startsWith("["));
  const till = parts.join("").trim().length; // the letters that are written already
  const draw = (words, line) =>
    [...words].slice(0, line ? 2 * long : till).map((letter, n) => {
      const look = n < start || n >= words.length - end ? "mono" : "mono future bold underlined";
      const row = line + 3 * Math.floor(n / long);
      return at.write(row, n % long, letter, long > 26 ? look : `${look} large`);
    });
  return svg("g", { "aria-hidden": "true" }, draw(cut(written, 2 * long), 0), draw(right, 1));
}

/** Draw a head's weights; the cells that its mask blocks are gray, and later rows are empty. */
function drawMap([place], weights, left, top, size, seen = Infinity) {
  const at = table(left, top, size, size, weights.length, weights[0].length);
  const color = (t, s) => (place === "decoder" && s > t ? "var(--masked)" : shade(weights[t][s]));
  return [at, at.map((t, s) => (t < seen ? color(t, s) : "var(--paper)"))];
}

function drawAnswer({ shown = Infinity }, numbers) {
  if (!numbers.isCurrent) return text(0, 16, "There is no new translation yet", "title");
  const verdict = `The translation is ${numbers.right ? "right ✓" : "wrong ✗"}`;
  const title = shown < numbers.written.length ? "The model writes…" : verdict;
  return [text(0, 16, title, "title"), drawLetters(numbers, shown)];
}

/** Draw the large map; a row appears when its token has been written. */
function drawLarge({ chosen, shown = Infinity, ...state }, { weights, queries, keys }) {
  const seen = chosen[0] === "encoder" ? queries.length : shown;
  const [at, map] = drawMap(chosen, weights, 112, 96, 212, seen);
  const write = ([t, s]) =>
    weights[t][s] >= 0.005 &&
    at.write(t, s, number(100 * weights[t][s], 0), `small ${inkOn(weights[t][s])}`);
  return [
    text(0, 16, `${nameOf(chosen).replace("h", "H")} (${stateOf({ chosen, ...state })})`, "title"),
    at.words(queries.slice(0, seen).map(shorten(12)), keys.map(shorten(9))),
    map,
    at.cells.filter(([t]) => t < seen).map(write),
    text(0, 330, `Query ↓: ${PLACES[chosen[0]][1]}. Key →: ${PLACES[chosen[0]][2]}.`),
    text(104, 88, "weights in %", "end"),
  ];
}

const SMALL = 46; // pixels of a map; its switch is to the right
const GRID = table(0, 22, 300, 210, 3, 4); // of the heads of a layer, with a row for each place

/** Draw the heads of a layer as small maps, each with a switch whose knob is up while it is on. */
function drawHeads(layer, state, { maps, on, record }) {
  const draw = (where, n) => {
    const [place, , head] = where;
    const [x, y] = [GRID.x(head), GRID.y(GRID.cells[n][0]) + 20];
    const off = isOff(state, where);
    return [
      head === 0 && text(x, y - 5, `${PLACES[place][0]}, layer ${layer}`),
      svg("g", off ? "pale" : "", drawMap(where, maps[place][layer][head], x, y, SMALL)[1]),
      rect(x, y, SMALL, SMALL, isSame(state.chosen, where) ? "open thick" : "line open"),
      rect(x + 51, y + 5, 16, 36, { class: off ? "open" : "value edged", rx: 8 }),
      disc(x + 59, y + (off ? 33 : 13), 5, off ? "" : "paper"),
    ];
  };
  const title = layer ? `Your record: ${record ?? "none yet"}` : `${on} of 24 heads are on`;
  return [text(0, 16, title, "title"), headsOf(layer).map(draw)];
}

const shorten = (most) => (token) => cut(token, most);
const toggle = (state, where) => {
  const others = state.off.filter((each) => !isSame(each, where));
  return { chosen: where, off: isOff(state, where) ? others : [...others, where] };
};

const switchesOf = (layer) => ({
  label: `heads of layer ${layer}: choose one with the arrow keys, and switch it with Space`,
  look: "scrolls",
  draw: () => rect(0, 22, 300, 210, "clear"),
  drag: (point, state, phase) => {
    const where = headsOf(layer)[GRID.find(point)];
    if (where && point[0] - GRID.x(where[2]) <= SMALL) return { chosen: where };
    return where && phase === "down" && toggle(state, where);
  },
  keys: (step, { chosen: [place, , head] }) => {
    const cell = GRID.move([KINDS.indexOf(place), head], step);
    return { chosen: headsOf(layer)[GRID.place(cell)] };
  },
  press: (state) => toggle(state, state.chosen.with(1, layer)),
  valueText: (state, { weights, queries, keys }) => {
    const favorite = (row) => keys[row.indexOf(Math.max(...row))];
    const looks = weights.map((row, t) => `from “${queries[t]}” to “${favorite(row)}”`);
    return `${nameOf(state.chosen)} (${stateOf(state)}); largest weights: ${looks.join(", ")}`;
  },
});

function describe(state, { text: written, german, right, isCurrent, ...numbers }) {
  if (!isCurrent || (state.wanted && !translator)) return waiting;
  return [
    `${grouped(numbers.number)} becomes ${written ? `“${written}”` : "nothing"},`,
    right ? "which is right." : `which is wrong: it should be “${german}”.`,
    `The large map shows ${nameOf(state.chosen)}, which is ${stateOf(state)}.`,
  ];
}

/** Load the site's translator, say how far it is, and redraw with it. */
async function load(model) {
  const progress = (percent) => {
    waiting = `Loading the translator: ${percent}% of 2 MB.`;
    model.set("loaded", percent);
  };
  try {
    translator ??= new Translator(await model.download("translator.safetensors", progress));
  } catch {
    waiting = "The translator could not be loaded. To try again, press a button.";
  }
  model.set("loaded", Boolean(translator));
}

const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Switch off the most important head until the translation is wrong, as in heads_explorer.py. */
async function breakIt(model, _el, changed) {
  if (!model.download) return changed({ breaks: model.get("breaks") + 1 });
  changed({ off: [], wanted: true });
  await load(model);
  while (translator) {
    const off = model.get("off");
    if (translator.certainty(last.number, off) < 0) return undefined;
    const on = HEADS.filter((head) => !isOff({ off }, head));
    const sure = on.map((head) => translator.certainty(last.number, [...off, head]));
    const chosen = on[sure.indexOf(Math.min(...sure))];
    changed({ chosen, off: [...off, chosen] });
    await new Promise((done) => setTimeout(done, isCalm() ? 0 : 300)); // ms
  }
}

/** Write each new translation token by token; on the site, load the translator when it is seen. */
function start(model, el) {
  let [timer, before] = [0, ""];
  const write = () => {
    const { number: value, text: written } = translator ? last : model.get("reading");
    if (before === `${value} ${written}` || isCalm()) return;
    before = `${value} ${written}`;
    clearInterval(timer);
    model.set("shown", 1);
    timer = setInterval(() => {
      model.set("shown", model.get("shown") + 1);
      if (model.get("shown") > 14 || !el.isConnected) clearInterval(timer);
    }, 110); // ms
  };
  for (const name of ["text", "off", "reading", "loaded"])
    model.on(`change:${name}`, () => queueMicrotask(write)); // after the new translation
  model.whenSeen?.(el, () => load(model));
}

export default explorer({
  layout: "beside",
  data: ["loaded", "shown", "wanted"],
  panes: [
    { name: "the translation", size: [320, 118], draw: drawAnswer },
    { name: "the map of one head", size: [330, 336], draw: drawLarge },
    ...[0, 1].map((layer) => ({
      name: `the heads of layer ${layer}, each with a switch`,
      size: [300, 236],
      draw: (...now) => drawHeads(layer, ...now),
      handles: [switchesOf(layer)],
    })),
  ],
  controls: { text: { label: "a number below one million", kind: "text" } },
  actions: {
    "Break it": breakIt,
    "Your turn: find the fewest": (_model, el, changed) => {
      changed({ off: [] });
      el.querySelector(".handle").focus({ focusVisible: true });
    },
  },
  compute,
  describe,
  start,
});
