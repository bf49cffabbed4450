// Positions: a map of codes, clocks that turn as the position plays, and dot products by distance.
import { curve, html, line, mount, number, panel, signed, svg, text } from "./explorer.js";

export const DEFAULTS = {
  kind: "sinusoidal", d_model: 64, base: 10000, positions: 51, position: 40, pair: 3, back: 0,
};
const TRAINED = 48; // rows of the learned table
const SPEED = 5; // positions per second
const RADIUS = 84; // of the large clock
const AREA = { x: 44, y: 32, width: 258, height: 204 }; // of the map, and of the dot products

const range = (length) => [...Array(length).keys()];
const dot = (one, other) => one.reduce((sum, value, n) => sum + value * other[n], 0);
const extent = (values) => [Math.min(...values), Math.max(...values)];
const clamp = (value, last, first = 0) => Math.min(Math.max(value, first), last);
const frequency = ({ base, d_model }, pair) => base ** ((-2 * pair) / d_model);
const isTurning = ({ kind }) => kind === "sinusoidal" || kind === "RoPE";
const widthOf = ({ kind, d_model, learned }) => (kind === "learned" ? learned[0].length : d_model);

/** Choose a position and a pair; the table may have fewer than the state says. */
const choose = (state, position = state.position, pair = state.pair) => ({
  position: clamp(position, state.positions - 1),
  pair: clamp(pair, widthOf(state) / 2 - 1),
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
  const away = (each) => Math.abs(each - position);
  const table = numbered.map((each) => makeRow(state, each));
  const back = state.kind === "RoPE" ? state.back : 0;
  const queries = back ? numbered.map((each) => makeRow(state, each - back)) : table;
  const all = queries.map((query) => table.map((key) => dot(query, key)));
  const spans = range(2 * state.positions - 1).map((n) => {
    const diagonal = all.map((row, each) => row[each + n - state.positions + 1]);
    return extent(diagonal.filter((value) => value !== undefined));
  });
  const products = all[position];
  const others = numbered.filter((each) => each !== position).sort((a, b) => away(a) - away(b));
  const similar = others.reduce((best, each) => (products[each] > products[best] + 1e-6 ? each : best));
  const [lows, highs] = [0, 1].map((side) => spans.map((span) => span[side]));
  return { table, query: queries[position], products, similar, lows, highs };
}

const steps = (count) => `${count} ${count === 1 ? "step" : "steps"}`;
const plot = (across, up, title) => panel(AREA.x, AREA.y, AREA.width, AREA.height, { across, up, title });
const mapPlot = (state, title) => plot([-0.5, widthOf(state) - 0.5], [state.positions - 0.5, -0.5], title);

/** Draw the cells of a table, with one path for every color. */
function drawCells(table) {
  const paths = {};
  table.forEach((row, y) => row.forEach((value, x) => {
    const level = clamp(Math.round(10 * value), 10, -10);
    paths[level] = `${paths[level] ?? ""}M${x},${y}h1v1h-1z`;
  }));
  const scale = `scale(${AREA.width / table[0].length} ${AREA.height / table.length})`;
  return svg("g", { transform: `translate(${AREA.x} ${AREA.y}) ${scale}`, "shape-rendering": "crispEdges" },
    Object.entries(paths).map(([level, d]) => svg("path", { d, fill: signed(level / 10) })));
}

function drawMap(state, { table }) {
  const titles = {
    sinusoidal: "Choose a position and a pair",
    learned: "Learned codes, always in 32 columns",
    RoPE: "One word, rotated at each position",
    none: "No code: all numbers are 0",
  };
  const every = (count) => [2, 4, 10, 20].find((step) => count / step <= 8);
  const ticks = (count) => range(count).filter((n) => n % every(count) === 0);
  return [
    mapPlot(state, titles[state.kind]).frame({
      xTicks: ticks(widthOf(state)), xLabel: "column: blue is negative, orange positive",
      yTicks: ticks(state.positions), yLabel: "position",
    }),
    drawCells(table),
  ];
}

/** Draw a frame outside of a rectangle, visible on every color. */
const framed = (left, top, right, bottom) =>
  [["var(--paper)", 4], ["var(--ink)", 2]].map(([stroke, width]) => svg("path", {
    d: `M${left - 2},${top - 2}H${right + 2}V${bottom + 2}H${left - 2}Z`,
    fill: "none", stroke, "stroke-width": width,
  }));

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Make a handle that chooses a position and a pair; `find` says which are at a point. */
const chooser = (label, draw, find) => ({
  label,
  draw,
  drag: (point, state) => choose(state, ...find(point, state)),
  keys: (key, state) => {
    const { position, pair } = choose(state);
    return ARROWS[key] && choose(state, position + ARROWS[key][0], pair + ARROWS[key][1]);
  },
  valueText: (state, { query }) => {
    const { position, pair } = choose(state);
    const values = query.slice(2 * pair, 2 * pair + 2).map((value) => number(value));
    return `position ${position}, pair ${pair}: ${values.join(" and ")}`;
  },
});

function frameCells(state) {
  const at = mapPlot(state);
  const { position, pair } = choose(state);
  return [
    svg("rect", { ...AREA, fill: "transparent", stroke: "var(--line)" }),
    framed(AREA.x, at.y(position - 0.5), AREA.x + AREA.width, at.y(position + 0.5)),
    framed(at.x(2 * pair - 0.5), AREA.y, at.x(2 * pair + 1.5), AREA.y + AREA.height),
  ];
}

function findCell(point, state) {
  const [column, row] = mapPlot(state).value(point);
  return [Math.round(row), Math.floor((column + 0.5) / 2)];
}

/** Draw the mark of the chosen position, a disc, or of the most similar one, a diamond. */
const mark = (role, x, y) => svg("path", {
  d: role === "query" ? `M${x - 6},${y}a6,6 0 1 0 12,0a6,6 0 1 0 -12,0z` : `M${x},${y - 7}l7,7l-7,7l-7,-7z`,
  fill: `var(--${role})`, stroke: "var(--paper)",
});

function drawProducts(state, { products, similar, lows, highs }) {
  const { position } = choose(state);
  const last = state.positions - 1;
  const [low, high] = extent([...lows, ...highs, -0.5, 0.5]);
  const room = 0.08 * (high - low);
  const title = state.kind === "RoPE" ? `Query ${position} with every key` : `Dot products of position ${position}`;
  const at = plot([-last - 1, last + 1], [low - room, high + room], title);
  const unit = [0.2, 0.5, 1, 2, 5, 10, 20].find((each) => (high - low) / each <= 5);
  const far = last > 25 ? 10 * Math.floor(last / 20) : Math.floor(last / 2);
  const border = (values) => values.map((value, n) => [at.x(n - last), at.y(value)]);
  const points = products.map((value, each) => [at.x(each - position), at.y(value)]);
  const gray = "var(--masked)";
  return [
    at.frame({
      xTicks: [-2, -1, 0, 1, 2].map((n) => n * far), xLabel: "distance (gray: all positions)",
      yTicks: range(21).map((n) => (n - 10) * unit).filter((tick) => tick >= low && tick <= high),
      show: (tick) => number(tick, Number.isInteger(tick) ? 0 : 1),
    }),
    curve([...border(highs), ...border(lows).reverse()], { fill: gray, stroke: gray, "stroke-width": 6 }),
    curve(points, { stroke: "var(--ink)", "stroke-width": 1 }),
    points.map(([cx, cy]) => svg("circle", { cx, cy, r: 2, fill: "var(--ink)" })),
    mark("query", ...points[position]),
    mark("query", 20, 281),
    text(30, 286, `itself: ${number(products[position])}`),
    state.kind !== "none" && [
      mark("key", ...points[similar]),
      mark("key", 128, 281),
      text(140, 286, `most similar: ${similar}, ${steps(Math.abs(similar - position))} away`),
    ],
  ];
}

/** Return where a hand points, across and up, in parts of the clock's radius. */
function pointed({ kind }, row, pair) {
  const [even, odd] = [row[2 * pair], row[2 * pair + 1]];
  if (kind === "sinusoidal") return [odd, even]; // the cosine across, as in the chapter's picture
  return [even / Math.SQRT2, odd / Math.SQRT2]; // numbers up to 1 have a length up to √2
}

/** Draw a clock with the hands of the most similar position (dashed) and of the chosen one. */
function drawClock(state, { table, query, similar }, pair, x, y, radius) {
  const degrees = isTurning(state) ? (-180 / Math.PI) * frequency(state, pair) : 0;
  const isLarge = radius === RADIUS;
  const hands = [["key", table[similar], "5 3"], ["query", query]].map(([role, row, dashes]) => {
    const [across, up] = pointed(state, row, pair).map((part) => part * radius);
    const width = isLarge ? 4 : 2.5;
    const look = { stroke: `var(--${role})`, "stroke-width": width, "stroke-dasharray": dashes };
    const hand = line(0, 0, across, -up, look);
    return svg("g", { "data-degrees": degrees }, hand, isLarge && mark(role, across, -up));
  });
  const face = svg("circle", { r: radius, fill: "none", stroke: "var(--line)" });
  return svg("g", { transform: `translate(${x} ${y})` }, face, hands);
}

function drawChosen(state, numbers) {
  const { position, pair } = choose(state);
  const { table, query, similar } = numbers;
  const dots = table.map((row) => {
    const [across, up] = pointed(state, row, pair);
    return svg("circle", { cx: 98 + RADIUS * across, cy: 124 - RADIUS * up, r: 2, fill: "var(--line)" });
  });
  const turn = (2 * Math.PI) / frequency(state, pair);
  const names = state.kind === "RoPE" ? ["query", "key"] : ["position", "position"];
  const columns = [2 * pair, 2 * pair + 1].map((column) => `column ${column}: ${number(query[column])}`);
  const speed = isTurning(state) ? ["", "one turn in", `${number(turn, turn < 100 ? 1 : 0)} positions`] : [];
  return [
    text(10, 20, `Pair ${pair} as a clock`, { class: "title" }),
    dots,
    drawClock(state, numbers, pair, 98, 124, RADIUS),
    [["query", position], ["key", similar]].map(([role, each], n) =>
      [mark(role, 202, 51 + 23 * n), text(214, 56 + 23 * n, `${names[n]} ${each}`)]),
    [...columns, ...speed].map((words, n) => text(196, 125 + 23 * n, words)),
  ];
}

/** Find the places of the small clocks; as many columns as they need to fit. */
function clockGrid(state) {
  const count = widthOf(state) / 2;
  const columns = [3, 4, 6, 8, 10].find((each) => Math.ceil(count / each) * (300 / each) <= 210);
  const size = 300 / columns;
  const middle = (n) => size * (n + 0.5);
  const center = (pair) => [8 + middle(pair % columns), 30 + middle(Math.floor(pair / columns))];
  return { columns, size, count, center };
}

function drawClocks(state, numbers) {
  const { size, count, center } = clockGrid(state);
  return [
    text(10, 20, `All ${count} clocks: choose one`, { class: "title" }),
    range(count).map((pair) => drawClock(state, numbers, pair, ...center(pair), 0.4 * size)),
  ];
}

function frameClock(state) {
  const { size, center } = clockGrid(state);
  const [x, y] = center(choose(state).pair);
  const half = size / 2 - 3;
  return [
    svg("rect", { x: 8, y: 30, width: 300, height: 210, fill: "transparent" }),
    framed(x - half, y - half, x + half, y + half),
  ];
}

function findClock([x, y], state) {
  const { columns, size } = clockGrid(state);
  const column = clamp(Math.floor((x - 8) / size), columns - 1);
  return [state.position, columns * Math.floor((y - 30) / size) + column];
}

function describe(state, { similar, lows, highs }) {
  if (state.kind === "none") return "Without a code, all dot products are 0: attention cannot see the order.";
  const { position } = choose(state);
  const middle = state.positions - 1;
  const isFixed = highs.every((high, n) => high - lows[n] < 1e-6);
  const found = state.kind === "RoPE"
    ? `Among the other keys, query ${position} has the largest dot product with`
    : `The position most similar to ${position} is`;
  return [
    `${found} ${similar}, ${steps(Math.abs(similar - position))} away.`,
    isFixed ? "A dot product depends on the distance only: the curve keeps its shape at every position."
      : "The curve changes its shape: five steps apart, dot products are between " +
        `${number(lows[middle + 5])} and ${number(highs[middle + 5])}.`,
    state.kind === "learned" && state.positions > TRAINED &&
      `Rows from ${TRAINED} on are noise, because no training sentence was that long.`,
  ].filter(Boolean).join(" ");
}

/** Add a button that plays the positions; between two of them, the hands turn on. */
function addPlayer(model, el) {
  const button = html("button", { type: "button", click: () => (frame ? stop() : start()) });
  const said = el.querySelector(".said");
  let frame;
  const turn = (part) => el.querySelectorAll("[data-degrees]").forEach((hand) =>
    hand.setAttribute("transform", `rotate(${part * hand.dataset.degrees})`));
  function stop() {
    if (frame) turn(0);
    frame = cancelAnimationFrame(frame);
    button.textContent = "▶ Play the positions";
    said.ariaLive = "polite";
  }
  function start() {
    const last = model.get("positions") - 1;
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let shown = model.get("position");
    const first = shown < last ? shown : 0;
    const began = performance.now();
    frame = requestAnimationFrame(function play() {
      if (model.get("position") !== shown || !el.isConnected) return stop(); // the reader chose one
      const place = Math.min(first + ((performance.now() - began) / 1000) * SPEED, last);
      shown = Math.floor(place);
      model.set("position", shown);
      model.save_changes();
      if (shown === last) return stop();
      if (!isCalm) turn(place - shown);
      frame = requestAnimationFrame(play);
    });
    button.textContent = "❚❚ Pause";
    said.ariaLive = "off"; // or every position is read aloud
  }
  el.querySelector(".side").prepend(button);
  stop();
  return stop;
}

const VIEW = {
  defaults: DEFAULTS,
  data: ["learned"],
  panes: [
    { name: "the codes of all positions", size: [316, 292], draw: drawMap,
      handles: [chooser("position and pair: choose them with the arrow keys", frameCells, findCell)] },
    { name: "the dot products of the chosen position", size: [316, 292], draw: drawProducts },
    { name: "the chosen pair as a clock", size: [316, 244], draw: drawChosen },
    { name: "all pairs as clocks", size: [316, 244], draw: drawClocks,
      handles: [chooser("clocks: turn them and choose one with the arrow keys", frameClock, findClock)] },
  ],
  controls: {
    kind: { label: "code", kind: "choice", options: ["sinusoidal", "learned", "RoPE", "none"] },
    d_model: { label: "width d_model", options: [4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64, 96, 128] },
    base: {
      label: "base", options: [10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 500000],
      show: (base) => base.toLocaleString("en"),
    },
  },
  more: {
    positions: { label: "number of positions", min: 8, max: 64 },
    back: { label: "RoPE: steps that the query looks back", min: 0, max: 12 },
  },
  disabled: (state) => [
    state.kind === "learned" && "d_model", !isTurning(state) && "base", state.kind !== "RoPE" && "back",
  ],
  compute,
  describe,
};

export default {
  render: ({ model, el }) => {
    const unmount = mount(model, el, VIEW);
    const stop = addPlayer(model, el);
    return () => [stop, unmount].forEach((end) => end());
  },
};
