// Positions: a map of codes, clocks that turn as the positions play, and dot products by distance.
import { button, explorer } from "./explorer.js";
import { dot, grouped, number, range } from "./numbers.js";
import { disc, line, panel, shape, signed, svg, table, text } from "./shapes.js";

const WIDTHS = [4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64, 96, 128];
const BASES = [10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 500000];
const SIZE = [316, 524];
const PLACE = [44, 32, 258]; // left, top and width of the map and of the dot products
const MAP = [...PLACE, 440];
const TITLES = {
  sinusoidal: "Choose a position and a pair",
  learned: "Learned codes, always in 32 columns",
  RoPE: "One word, rotated at each position",
  none: "No code: all numbers are 0",
};

/** Lay out the clocks of all pairs, in as many columns as they need to fit. */
function layOutClocks(pairs) {
  const rows = (columns) => Math.ceil(pairs / columns);
  const columns = [3, 4, 6, 8, 10].find((each) => rows(each) * (300 / each) <= 210);
  return table(8, 308, 300, (300 / columns) * rows(columns), rows(columns), columns);
}

/** Return the chosen position and pair, within the table, and lay out the map and the clocks. */
function read({ kind, d_model, base, learned, positions, ...chosen }) {
  const pairs = (kind === "learned" ? learned[0].length : d_model) / 2;
  const position = Math.min(chosen.position, positions - 1);
  const pair = Math.min(chosen.pair, pairs - 1);
  const isTurning = kind === "sinusoidal" || kind === "RoPE";
  const speed = (each) => (isTurning ? base ** ((-2 * each) / d_model) : 0); // radians per step
  const turn = (2 * Math.PI) / speed(pair);
  const turning = isTurning ? `a turn in ${number(turn, 1)} steps` : "it does not turn";
  const [map, clocks] = [table(...MAP, positions, pairs), layOutClocks(pairs)];
  return { pairs, position, pair, isTurning, speed, turning, map, clocks };
}

/** Return the code of a position. RoPE has no codes, so return a word's rotated vector. */
function makeRow({ kind, learned, pairs, speed }, position) {
  if (kind === "learned") return learned[position].map((value) => value / 100);
  return range(pairs).flatMap((pair) => {
    const [sine, cosine] = [Math.sin, Math.cos].map((part) => part(position * speed(pair)));
    const [even, odd] = [2 * pair, 2 * pair + 1].map((column) => Math.sin(1 + column * column));
    if (kind === "RoPE") return [even * cosine - odd * sine, even * sine + odd * cosine];
    return kind === "none" ? [0, 0] : [sine, cosine];
  });
}

/** Compute all codes, one position's dot products, and the range of all by distance. */
export function compute(given) {
  const state = { ...given, ...read(given) };
  const numbered = range(state.positions);
  const codes = numbered.map((each) => makeRow(state, each));
  const all = codes.map((one) => codes.map((other) => dot(one, other)));
  const products = all[state.position];
  const away = (each) => Math.abs(each - state.position);
  const others = numbered.filter(away).sort((a, b) => away(a) - away(b));
  const most = Math.max(...others.map((each) => products[each]));
  const alike = others.filter((each) => products[each] > most - 1e-6);
  const distances = range(2 * state.positions - 1).map((n) => n - state.positions + 1);
  const spans = distances.map((each) => all.flatMap((row, n) => row[n + each] ?? []));
  const [lows, highs] = [Math.min, Math.max].map((end) => spans.map((span) => end(...span)));
  return { table: codes, products, alike, similar: alike[0], lows, highs };
}

/** Draw the dot products; diamonds mark the most similar positions, and a disc the chosen one. */
function drawProducts({ kind, positions, position }, { products, alike, lows, highs }) {
  const last = positions - 1;
  const [low, high] = [Math.min(...lows, -0.5), Math.max(...highs, 0.5)];
  const room = 0.08 * (high - low);
  const ends = { across: [-last - 1, last + 1], up: [low - room, high + room] };
  const at = panel(...PLACE, 170, { ...ends, title: `Dot products of position ${position}` });
  const unit = [0.2, 0.5, 1, 2, 5, 10, 20].find((each) => (high - low) / each <= 5);
  const multiples = range(21).map((n) => (n - 10) * unit);
  const yTicks = multiples.filter((tick) => tick >= low && tick <= high);
  const xTicks = [-2, -1, 0, 1, 2].map((n) => n * Math.floor(last / 2));
  const [upper, lower] = [highs, lows].map((values) => values.map((value, n) => [n - last, value]));
  const points = products.map((value, each) => [each - position, value]);
  const diamond = ([x, y]) => shape(`M${x},${y - 7}l7,7l-7,7l-7,-7z`, "key");
  const marked = kind === "none" ? [] : alike;
  return [
    at.frame({ xTicks, yTicks, xLabel: "distance (gray: range of all positions)" }),
    at.curve([...upper, ...lower.reverse()], "masked band"),
    at.curve(points, "thin"),
    points.map((point) => disc(...at.place(point), 2)),
    marked.map((each) => diamond(at.place(points[each]))),
    disc(...at.place(points[position]), 6, "query"),
    diamond([50, 257]),
    text(62, 262, `most similar: ${marked.join(", ") || "all"}`),
  ];
}

const choose = (cell) => cell && { position: cell[0], pair: cell[1] };
const HANDLE = {
  look: "scrolls",
  keys: (step, { map, position, pair }) => choose(map.move([position, pair], step)),
  valueText: ({ position, pair, turning }, { table: codes }) => {
    const [even, odd] = codes[position].slice(2 * pair).map((value) => number(value));
    return `position ${position}, pair ${pair}: ${even} and ${odd}, ${turning}`;
  },
};

function drawMap({ kind, map, positions, position, pairs, pair }, { table: codes }) {
  const ends = { across: [-0.5, 2 * pairs - 0.5], up: [positions - 0.5, -0.5] };
  const every = (count) => [2, 4, 10, 20].find((step) => count / step <= 8);
  const ticks = (count) => range(count).filter((n) => n % every(count) === 0);
  const axes = { xTicks: ticks(2 * pairs), yTicks: ticks(positions), yLabel: "position" };
  const xLabel = "column: blue is negative, red positive";
  return [
    panel(...MAP, { ...ends, title: TITLES[kind] }).frame({ ...axes, xLabel }),
    table(...MAP, positions, 2 * pairs).map((row, column) => signed(codes[row][column]), "crisp"),
    map.box(position, 0, "open thick", { across: pairs, more: 1 }),
    map.box(0, pair, "open thick", { down: positions, more: 1 }),
  ];
}

const CELLS = {
  ...HANDLE,
  label: "position and pair: choose them with the arrow keys",
  draw: drawMap,
  drag: (point, { map }) => choose(map.cells[map.find(point)]),
};

/** Draw all clocks, with a hand for the most similar position (dashed) and for the chosen one. */
function drawClocks(state, { table: codes, alike }) {
  const { kind, position, pair, pairs, speed, turning, clocks } = state;
  const radius = 0.4 * clocks.wide;
  const hand = (n, each, look) => {
    const [even, odd] = codes[each].slice(2 * n).map((value) => value * radius);
    // a code's cosine is horizontal, as in the chapter's picture; other pairs are up to √2 long
    const end = kind === "sinusoidal" ? [odd, -even] : [even / Math.SQRT2, -odd / Math.SQRT2];
    const turn = { class: "hand", style: `--turn: ${-speed(n)}rad` };
    return svg("g", turn, line(0, 0, ...end, look));
  };
  const draw = ([row, column], n) => {
    const transform = `translate(${clocks.x(column + 0.5)} ${clocks.y(row + 0.5)})`;
    const hands = [hand(n, alike[0], "key thick dashed"), hand(n, position, "query thick")];
    return svg("g", { transform }, disc(0, 0, radius, "line open"), hands);
  };
  return [
    text(8, 298, "Choose a clock", "title"),
    text(134, 298, `clock ${pair}: ${turning}`),
    clocks.cells.slice(0, pairs).map(draw),
    clocks.cells.map((cell) => clocks.box(...cell, "clear")),
    clocks.box(...clocks.cells[pair], "open thick", { more: -3 }),
  ];
}

const CLOCKS = {
  ...HANDLE,
  label: "clocks: choose one with the arrow keys",
  draw: drawClocks,
  drag: (point, { clocks, position, pairs }) => {
    const pair = clocks.find(point);
    return pair >= 0 && choose([position, Math.min(pair, pairs - 1)]);
  },
  keys: (step, { clocks, position, pair }) =>
    choose([position, clocks.place(clocks.move(clocks.cells[pair], step))]),
};

function describe({ kind, positions, position }, { alike, lows, highs }) {
  if (kind === "none") return ["All dot products are 0, so attention cannot see the order."];
  const distance = Math.abs(alike[0] - position);
  const [low, high] = [lows, highs].map((ends) => number(ends[positions + 4]));
  return [
    `Most similar to position ${position} ${alike[1] ? "are" : "is"} ${alike.join(" and ")},`,
    `${distance} ${distance === 1 ? "step" : "steps"} away.`,
    `Five steps apart, ${low === high ? `all dot products are ${low}` : `dot products are ${low} to ${high}`}.`,
    kind === "learned" && "Rows from 48 on are nearly 0: no training sentence was that long.",
  ];
}

/** Add a button that plays the positions; between two positions, the hands turn. */
function addPlayer(model, el) {
  let [timer, shown, first] = [0, 0, 0];
  const player = button("", () => play(!timer));
  function play(isOn) {
    clearInterval(timer);
    timer = isOn && setInterval(step, 200); // milliseconds, as in explorer.css
    first = model.get("position");
    shown = first;
    el.firstChild.classList.toggle("playing", isOn);
    player.textContent = isOn ? "❚❚ Pause" : "▶ Play the positions";
    el.querySelector(".said").ariaLive = isOn ? "off" : "polite"; // or it is read aloud
  }
  function step() {
    if (model.get("position") !== shown || !el.isConnected) return play(false); // the reader chose
    shown = (shown + 1) % model.get("positions");
    model.set("position", shown);
    model.save_changes();
    if (shown === first) play(false); // after a full round
  }
  el.querySelector(".controls").prepend(player);
  play(false);
}

export default explorer({
  read,
  panes: [
    { name: "the codes of all positions", size: SIZE, handles: [CELLS] },
    { name: "the dot products, and all clocks", size: SIZE, draw: drawProducts, handles: [CLOCKS] },
  ],
  controls: {
    kind: { label: "code", kind: "choice", options: Object.keys(TITLES) },
    d_model: { label: "width d_model", options: WIDTHS, isIdle: ({ kind }) => kind === "learned" },
    base: { label: "base", options: BASES, show: grouped, isIdle: ({ isTurning }) => !isTurning },
  },
  compute,
  describe,
  start: addPlayer,
});
