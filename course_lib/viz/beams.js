// Beam search as a tree: hypotheses are kept, cut, or end; follow one, and read its sum.
import { line, mount, number, shade, svg, text } from "./explorer.js";

export const DEFAULTS = { beam_size: 2, alpha: 0, step: 4, column: 3, rank: 0 };
const [CUT, KEPT, ENDED] = ["cut", "kept", "ended"];
const FATES = [CUT, KEPT, ENDED];
const LOOK = {
  [CUT]: { "stroke-width": 0 },
  [KEPT]: { "stroke-width": 2, stroke: "var(--query)", rx: 14 },
  [ENDED]: { "stroke-width": 5, stroke: "var(--value)" },
};
const LIMIT = 9; // tokens of a sentence
const WIDE = 16; // this many hypotheses miss no sentence of the language
const LEFT = [8, 28, 98, 168, 238, 308]; // of the box in each step
const [TOP, HIGH, BOX, WIDTH, SUM] = [44, 388, 44, 50, 256];
const START = { word: "bos", total: 0, length: 0, rank: 0, y: TOP + 114, text: "" };

const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;
const path = (node) => (node.parent ? [...path(node.parent), node] : []);

/** Continue a hypothesis by every word. */
function grow(parent, language) {
  return Object.entries(language[parent.word]).map(([word, p]) => {
    const total = parent.total + Math.log(p);
    return { parent, word, p, total, length: parent.length + 1, text: `${parent.text} ${word}` };
  });
}

const hasEnded = ({ fate }) => fate === ENDED;
const pool = (columns, K) => {
  const ended = columns.flat().filter(hasEnded);
  return ended.sort((a, b) => b.score - a.score).slice(0, K);
};

/** Search as the package does; return the best 2K continuations of each step. */
function search(language, K, alpha) {
  const columns = [];
  for (let beam = [START]; beam.length; ) {
    if (beam[0].total / penalty(LIMIT, alpha) <= pool(columns, K)[K - 1]?.score) break;
    const grown = beam.flatMap((each) => grow(each, language));
    const column = grown.sort((a, b) => b.total - a.total).slice(0, 2 * K);
    beam = column.filter(({ word }) => word !== "end").slice(0, K);
    for (const [rank, node] of column.entries()) {
      const fate = beam.includes(node) ? KEPT : node.word === "end" && rank < K ? ENDED : CUT;
      const score = node.total / penalty(node.length, alpha);
      const y = TOP + (rank + 0.5) * Math.min(HIGH / column.length, 76);
      Object.assign(node, { rank, fate, score, y });
    }
    columns.push(column);
  }
  return columns;
}

/** Search up to a step, and find what is followed, greedy decoding's sentence and the best. */
function run({ language, beam_size: K, alpha, step, column, rank }) {
  const all = search(language, K, alpha);
  const columns = all.slice(0, step);
  const last = columns[Math.min(column, columns.length) - 1];
  const greedy = search(language, 1, alpha).flat().find(hasEnded); // what ends first
  const best = pool(search(language, WIDE, alpha), 1)[0];
  const ended = pool(columns, K);
  return { all, columns, ended, followed: last[Math.min(rank, last.length - 1)], greedy, best };
}

/** Return the numbers of all continuations up to a step, and of what is followed. */
export function compute(state) {
  const { all, columns, ended, followed, greedy, best } = run(state);
  const others = Object.keys(state.language).filter((word) => word !== "bos");
  const id = ({ word }) => ["pad", "bos", "end", ...others.sort()].indexOf(word);
  const sentence = (node) => [node.score, ...path(node).map(id)];
  const row = (node) => [node.parent.rank, id(node), node.total, FATES.indexOf(node.fate)];
  return {
    steps: all.length,
    columns: columns.map((column) => column.map(row)),
    pool: ended.map(({ score, length, rank }) => [score, length, rank]),
    followed: [followed.length, followed.rank, ...path(followed).map(({ p }) => Math.log(p))],
    greedy: sentence(greedy),
    best: sentence(best),
  };
}

function drawTree(state) {
  const { all, columns, followed } = run(state);
  const way = path(followed);
  const edge = ({ parent, length, y }, style) =>
    line(LEFT[length - 1] + (length > 1 && WIDTH), parent.y, LEFT[length], y, style);
  const box = (node) => {
    const { word, total, fate, y } = node;
    const x = LEFT[node.length];
    const place = { x, y: y - BOX / 2, width: WIDTH, height: BOX, ...LOOK[fate] };
    const words = [word, number(total), fate].map((each, n) => {
      const style = fate === CUT && !n ? "text-decoration:line-through" : "";
      return text(x + WIDTH / 2, y - 9 + 13 * n, each, { anchor: "middle", style });
    });
    return [svg("rect", { fill: shade(way.includes(node) / 4), ...place }), words];
  };
  const over = columns.length === all.length ? ", and the search is over" : "";
  return [
    text(0, 14, `Step ${columns.length} of ${all.length}${over}`, { class: "title" }),
    columns.flat().map((node) => edge(node, node.fate === CUT ? { "stroke-dasharray": 3 } : {})),
    way.map((node) => edge(node, { stroke: "var(--ink)", "stroke-width": 4 })),
    svg("circle", { cx: LEFT[0], cy: START.y, r: 7, fill: "var(--ink)" }),
    columns.flat().map(box),
  ];
}

/** Write lines with a number at the end of each; the first is a title. */
const table = (top, rows) =>
  rows.map(([words, value, middle = ""], n) => [
    text(0, top + 22 * n, words, n ? {} : { class: "title" }),
    text(96, top + 22 * n, middle),
    text(SUM, top + 22 * n, value, { anchor: "end" }),
  ]);

function drawSums(state) {
  const { ended, followed, greedy, best } = run(state);
  const { total, length, fate, score } = followed;
  const divisor = `((5 + ${length}) / 6)^${number(state.alpha, 1)}`;
  return [
    table(14, [
      ["You follow", ""],
      ...path(followed).map(({ word, p }) => [word, number(Math.log(p)), `log ${number(p)}`]),
      ["sum", number(total)],
      ["penalty", `÷ ${number(penalty(length, state.alpha))}`, divisor],
      ["score", fate === ENDED ? number(score) : "not in the pool"],
    ]),
    table(234, [
      ["Pool: the best that have ended", ""],
      ...ended.map((node) => [node.text, number(node.score, 3)]),
    ]),
    table(366, [
      ["For comparison", ""],
      [`greedy:${greedy.text}`, number(greedy.score, 3)],
      [`best:${best.text}`, number(best.score, 3)],
    ]),
  ];
}

const follow = (node, { step }) =>
  node?.parent && { column: node.length, rank: node.rank, step: Math.max(step, node.length) };

const TREE = {
  label: "followed hypothesis: move it with the arrow keys",
  draw: () => svg("rect", { y: TOP, width: LEFT[5] + WIDTH, height: HIGH, fill: "transparent" }),
  drag: ([x, y], state) => {
    const far = (node) => Math.hypot(LEFT[node.length] + WIDTH / 2 - x, node.y - y);
    const [nearest] = run(state)
      .columns.flat()
      .sort((a, b) => far(a) - far(b));
    return follow(nearest, state);
  },
  keys: (key, state) => {
    const { all, followed } = run(state);
    const { length, rank, parent } = followed;
    const places = {
      ArrowUp: all[length - 1][rank - 1],
      ArrowDown: all[length - 1][rank + 1],
      ArrowLeft: parent,
      ArrowRight: all[length]?.find((node) => node.parent === followed),
    };
    return follow(places[key], state);
  },
  valueText: (state) => `${run(state).followed.text}, ${run(state).followed.fate}`,
};

function describe(state) {
  const { all, columns, ended, followed, greedy, best } = run(state);
  const follows = `You follow “${followed.text.trim()}” (${followed.fate}).`;
  if (columns.length < all.length) return `The search goes on. ${follows}`;
  const finds = ({ score }) => (score < best.score - 1e-9 ? "misses" : "finds");
  const search = `The search ${finds(ended[0])} the best score`;
  return `${search}, and greedy decoding ${finds(greedy)} it. ${follows}`;
}

const VIEW = {
  defaults: DEFAULTS,
  data: ["language"],
  panes: [
    { name: "the tree of hypotheses", size: [364, 440], draw: drawTree, handles: [TREE] },
    { name: "a sum, and the finished sentences", size: [SUM, 440], draw: drawSums },
  ],
  controls: {
    step: { label: "step", min: 1, step: 1 },
    beam_size: { label: "beam size K", min: 1, max: 4, step: 1 },
    alpha: { label: "length penalty α", min: 0, max: 2, step: 0.1, show: (a) => number(a, 1) },
  },
  limits: (state) => ({ step: { max: run(state).all.length } }),
  compute,
  describe,
};

export default { render: ({ model, el }) => mount(model, el, VIEW) };
