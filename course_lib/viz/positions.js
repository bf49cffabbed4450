// Positions: a map of codes, clocks that turn as the position plays, and dot products by distance.
import { mount } from "./explorer.js";
import { clamp, dot, grouped, number, range } from "./numbers.js";
import { disc, html, line, panel, shape, signed, svg, table, text } from "./shapes.js";

export const DEFAULTS = {
  kind: "sinusoidal",
  d_model: 64,
  base: 10000,
  positions: 51,
  position: 40,
  pair: 3,
};
const TRAINED = 48; // rows of the learned table
const STEP = 200; // milliseconds for each position
const TITLES = {
  sinusoidal: "Choose a position and a pair",
  learned: "Learned codes, always in 32 columns",
  RoPE: "One word, rotated at each position",
  none: "No code: all numbers are 0",
};

const frequency = ({ base, d_model }, pair) => base ** ((-2 * pair) / d_model);
const isTurning = ({ kind }) => kind === "sinusoidal" || kind === "RoPE";
const pairsOf = ({ kind, d_model, learned }) =>
  (kind === "learned" ? learned[0].length : d_model) / 2;

/** Choose a position and a pair; the table may have fewer than the state says. */
const choose = (state, position = state.position, pair = state.pair) => ({
  position: clamp(position, 0, state.positions - 1),
  pair: clamp(pair, 0, pairsOf(state) - 1),
});

/** Return the code of a position. RoPE has none: return the vector of a word, rotated. */
function makeRow(state, position) {
  if (state.kind === "learned") return state.learned[position].map((value) => value / 100);
  return range(state.d_model / 2).flatMap((pair) => {
    const angle = position * frequency(state, pair);
    const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
    const [even, odd] = [2 * pair, 2 * pair + 1].map((column) => Math.sin(1 + column * column));
    if (state.kind === "RoPE") return [even * cosine - odd * sine, even * sine + odd * cosine];
    return state.kind === "none" ? [0, 0] : [sine, cosine];
  });
}

/** Compute the table, the dot products of a position, and the range of all at every distance. */
export function compute(state) {
  const { position } = choose(state);
  const numbered = range(state.positions);
  const codes = numbered.map((each) => makeRow(state, each));
  const all = codes.map((one) => codes.map((other) => dot(one, other)));
  const spans = range(2 * state.positions - 1).map((n) =>
    all.flatMap((row, each) => row[each + n - state.positions + 1] ?? []),
  );
  const products = all[position];
  const away = (each) => Math.abs(each - position);
  const others = numbered.filter((each) => each !== position).sort((a, b) => away(a) - away(b));
  const larger = (best, each) => (products[each] > products[best] + 1e-6 ? each : best);
  const [lows, highs] = [Math.min, Math.max].map((end) => spans.map((span) => end(...span)));
  return { table: codes, products, similar: others.reduce(larger), lows, highs };
}

const AREA = [44, 32, 258]; // left, top and width of the map and of the dot products
const mapOf = (state, columns) => table(...AREA, 440, state.positions, columns);

function drawMap(state, { table: codes }) {
  const [rows, columns] = [state.positions, 2 * pairsOf(state)];
  const ends = { across: [-0.5, columns - 0.5], up: [rows - 0.5, -0.5] };
  const at = panel(...AREA, 440, { ...ends, title: TITLES[state.kind] });
  const ticks = (count) => {
    const every = [2, 4, 10, 20].find((step) => count / step <= 8);
    return range(count).filter((n) => n % every === 0);
  };
  const labels = { xLabel: "column: blue is negative, orange positive", yLabel: "position" };
  return [
    at.frame({ xTicks: ticks(columns), yTicks: ticks(rows), ...labels }),
    mapOf(state, columns).map((row, column) => signed(codes[row][column]), "crisp"),
  ];
}

/** Make a handle that chooses a position and a pair; `find` says which are at a point. */
const chooser = (label, draw, find) => ({
  label,
  look: "scrolls",
  draw,
  drag: (point, state) => choose(state, ...find(point, state)),
  keys: ([rows, columns], state) => {
    const { position, pair } = choose(state);
    return choose(state, position + rows, pair + columns);
  },
  valueText: (state, { table: codes }) => {
    const { position, pair } = choose(state);
    const [even, odd] = codes[position].slice(2 * pair).map((value) => number(value));
    return `position ${position}, pair ${pair}: ${even} and ${odd}`;
  },
});

const CELLS = chooser(
  "position and pair: choose them with the arrow keys",
  (state) => {
    const { position, pair } = choose(state);
    const at = mapOf(state, pairsOf(state));
    return [
      at.box(0, 0, "clear", { down: state.positions, across: pairsOf(state) }),
      at.box(position, 0, "open thick", { across: pairsOf(state), more: 1 }),
      at.box(0, pair, "open thick", { down: state.positions, more: 1 }),
    ];
  },
  (point, state) => {
    const at = mapOf(state, pairsOf(state));
    return at.cells[at.find(point)] ?? [];
  },
);

/** Draw the dot products, with a disc at the chosen position and a diamond at the most similar. */
function drawProducts(state, { products, similar, lows, highs }) {
  const { position } = choose(state);
  const last = state.positions - 1;
  const [low, high] = [Math.min(...lows, -0.5), Math.max(...highs, 0.5)];
  const room = 0.08 * (high - low);
  const ends = { across: [-last - 1, last + 1], up: [low - room, high + room] };
  const at = panel(...AREA, 170, { ...ends, title: `Dot products of position ${position}` });
  const unit = [0.2, 0.5, 1, 2, 5, 10, 20].find((each) => (high - low) / each <= 5);
  const yTicks = range(21).map((n) => (n - 10) * unit);
  const [upper, lower] = [highs, lows].map((values) => values.map((value, n) => [n - last, value]));
  const points = products.map((value, each) => [each - position, value]);
  const diamond = ([x, y]) => shape(`M${x},${y - 7}l7,7l-7,7l-7,-7z`, "key");
  return [
    at.frame({
      xTicks: [-2, -1, 0, 1, 2].map((n) => n * Math.floor(last / 2)),
      xLabel: "distance (gray: all positions)",
      yTicks: yTicks.filter((tick) => tick >= low && tick <= high),
      show: (tick) => number(tick, Number.isInteger(tick) ? 0 : 1),
    }),
    at.curve([...upper, ...lower.reverse()], "masked band"),
    at.curve(points, "thin"),
    points.map((point) => disc(...at.place(point), 2)),
    disc(...at.place(points[position]), 6, "query"),
    diamond(at.place(points[similar])),
    disc(50, 257, 6, "query"),
    text(60, 262, `position ${position}`),
    diamond([180, 257]),
    text(192, 262, `most similar: ${similar}`),
  ];
}

/** Return where a hand points, across and up, in parts of the clock's radius. */
function pointed({ kind }, row, pair) {
  const [even, odd] = row.slice(2 * pair);
  if (kind === "sinusoidal") return [odd, even]; // the cosine across, as in the chapter's picture
  return [even / Math.SQRT2, odd / Math.SQRT2]; // numbers up to 1 have a length up to √2
}

/** Draw a clock with the hands of the most similar position (dashed) and of the chosen one. */
function drawClock(state, { table: codes, similar }, pair, [x, y], radius) {
  const degrees = isTurning(state) ? (-180 / Math.PI) * frequency(state, pair) : 0;
  const hand = (position, look) => {
    const [across, up] = pointed(state, codes[position], pair);
    const pen = line(0, 0, across * radius, -up * radius, look);
    return svg("g", { "data-degrees": degrees }, pen);
  };
  const hands = [hand(similar, "key thick dashed"), hand(choose(state).position, "query thick")];
  return svg("g", { transform: `translate(${x} ${y})` }, disc(0, 0, radius, "line open"), hands);
}

/** Find a table for the clocks, with as many columns as they need to fit. */
function clocksOf(state) {
  const rows = (columns) => Math.ceil(pairsOf(state) / columns);
  const columns = [3, 4, 6, 8, 10].find((each) => rows(each) * (300 / each) <= 210);
  const at = table(8, 308, 300, (300 / columns) * rows(columns), rows(columns), columns);
  return { ...at, size: 300 / columns };
}

function drawClocks(state, numbers) {
  const { x, y, cells, size } = clocksOf(state);
  const { pair } = choose(state);
  const draw = ([row, column], n) =>
    drawClock(state, numbers, n, [x(column + 0.5), y(row + 0.5)], 0.4 * size);
  const turn = (2 * Math.PI) / frequency(state, pair);
  const speed = `: a turn in ${number(turn, turn < 100 ? 1 : 0)} steps`;
  return [
    text(8, 298, "Choose a clock", "title"),
    text(134, 298, `clock ${pair}${isTurning(state) ? speed : ""}`),
    cells.slice(0, pairsOf(state)).map(draw),
  ];
}

const CLOCKS = chooser(
  "clocks: turn them and choose one with the arrow keys",
  (state) => {
    const { box, cells } = clocksOf(state);
    const frame = box(...cells[choose(state).pair], "open thick", { more: -3 });
    return [cells.map((cell) => box(...cell, "clear")), frame];
  },
  (point, state) => [undefined, clocksOf(state).find(point)],
);

function describe(state, { similar, lows, highs }) {
  const { position } = choose(state);
  const distance = Math.abs(similar - position);
  const five = state.positions + 4; // the place of five steps
  const fixed = highs.every((high, n) => high - lows[n] < 1e-6)
    ? "A dot product depends on the distance only: the curve keeps its shape at every position."
    : "The curve changes its shape: five steps apart, dot products are between " +
      `${number(lows[five])} and ${number(highs[five])}.`;
  const isLong = state.kind === "learned" && state.positions > TRAINED;
  if (state.kind === "none") return ["All dot products are 0, so attention cannot see the order."];
  return [
    `The position most similar to ${position} is ${similar},`,
    `${distance} ${distance === 1 ? "step" : "steps"} away.`,
    fixed,
    isLong && `Rows from ${TRAINED} on are noise, because no training sentence was that long.`,
  ];
}

/** Add a button that plays the positions; between two of them, the hands turn. */
function addPlayer(model, el) {
  let [timer, shown] = [0, 0];
  const button = html("button", { type: "button", click: () => play(!timer) });
  function play(isOn) {
    clearInterval(timer);
    timer = isOn && setInterval(step, STEP);
    shown = model.get("position");
    button.textContent = isOn ? "❚❚ Pause" : "▶ Play the positions";
    el.querySelector(".said").ariaLive = isOn ? "off" : "polite"; // not every position is read aloud
  }
  function step() {
    const last = model.get("positions") - 1;
    if (model.get("position") !== shown || !el.isConnected) return play(false); // the reader chose
    shown = shown < last ? shown + 1 : 0;
    model.set("position", shown);
    model.save_changes();
    if (shown === last) return play(false);
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (const hand of isCalm ? [] : el.querySelectorAll("[data-degrees]"))
      hand.animate({ rotate: ["0deg", `${hand.dataset.degrees}deg`] }, STEP);
  }
  el.querySelector(".side").prepend(button);
  play(false);
  return () => play(false);
}

const WIDTHS = [4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64, 96, 128];
const BASES = [10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 500000];
const SIZE = [316, 524];
const VIEW = {
  defaults: DEFAULTS,
  data: ["learned"],
  panes: [
    { name: "the codes of all positions", size: SIZE, draw: drawMap, handles: [CELLS] },
    {
      name: "the dot products of the chosen position, and all pairs as clocks",
      size: SIZE,
      draw: (...all) => [drawProducts(...all), drawClocks(...all)],
      handles: [CLOCKS],
    },
  ],
  controls: {
    kind: { label: "code", kind: "choice", options: Object.keys(TITLES) },
    d_model: { label: "width d_model", options: WIDTHS },
    base: { label: "base", options: BASES, show: grouped },
  },
  disabled: (state) => [state.kind === "learned" && "d_model", !isTurning(state) && "base"],
  compute,
  describe,
};

export default {
  render: ({ model, el }) => {
    mount(model, el, VIEW);
    return addPlayer(model, el);
  },
};
