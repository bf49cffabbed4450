// Beam search as a tree: hypotheses are kept, cut, or end; follow one, and read its sum.
import { explorer } from "./explorer.js";
import { clamp, number, range } from "./numbers.js";
import { disc, line, rect, shade, text } from "./shapes.js";

export const DEFAULTS = { beam_size: 2, alpha: 0, step: 5, column: 3, rank: 0 };
const [CUT, KEPT, ENDED] = ["cut", "kept", "ended"];
const FATES = [CUT, KEPT, ENDED];
const EDGED = { stroke: "currentColor", "stroke-width": 2 };
const LOOK = {
  [CUT]: {},
  [KEPT]: { ...EDGED, class: "query", rx: 14 },
  [ENDED]: { ...EDGED, class: "value", "stroke-width": 4 },
};
const LIMIT = 9; // tokens of a sentence
const WIDE = 16; // this many hypotheses miss no sentence of the language
const LEFT = [8, 28, 98, 168, 238, 308]; // of the box in each step
const [TOP, HIGH, BOX, WIDTH, SUM] = [34, 404, 44, 54, 256];
const START = { word: "bos", total: 0, length: 0, rank: 0, y: TOP + 114, text: "" };

const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;
const path = (node) => (node.parent ? [...path(node.parent), node] : []);

/** Continue a hypothesis by every word. */
function grow(parent, language) {
  return Object.entries(language[parent.word]).map(([word, p]) => {
    const total = parent.total + Math.log(p);
    return {
      parent,
      word,
      p,
      total,
      length: parent.length + 1,
      text: `${parent.text} ${word}`.trim(),
    };
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

function drawTree({ all, columns, followed }) {
  const way = path(followed);
  const edge = ({ parent, length, y }, look) =>
    line(LEFT[length - 1] + (length > 1 && WIDTH), parent.y, LEFT[length], y, look);
  const box = (node) => {
    const [x, y] = [LEFT[node.length], node.y];
    const look = { fill: shade(way.includes(node) / 2), ...LOOK[node.fate] };
    const style = node.fate === CUT ? "text-decoration: line-through" : "";
    return [
      rect(x, y - BOX / 2, WIDTH, BOX, look),
      text(x + WIDTH / 2, y - 9, node.word, { class: "middle", style }),
      text(x + WIDTH / 2, y + 4, number(node.total), "middle"),
      text(x + WIDTH / 2, y + 17, node.fate, "middle"),
    ];
  };
  const over = columns.length === all.length ? ", and the search is over" : "";
  return [
    text(0, 14, `Step ${columns.length} of ${all.length}${over}`, "title"),
    columns.flat().map((node) => edge(node, node.fate === CUT ? "line dashed" : "line")),
    way.map((node) => edge(node, "thick")),
    disc(LEFT[0], START.y, 7),
    columns.flat().map(box),
  ];
}

/** Write lines with a number at the end of each; the first is a title. */
const lines = (top, rows) =>
  rows.map(([words, value, middle], n) => [
    text(0, top + 22 * n, words, n ? "" : "title"),
    text(96, top + 22 * n, middle),
    text(SUM, top + 22 * n, value, "end"),
  ]);

function drawSums({ alpha, ended, followed, greedy, best }) {
  const { total, length, fate, score } = followed;
  const divisor = `((5 + ${length}) / 6)^${number(alpha, 1)}`;
  return [
    lines(14, [
      ["You follow"],
      ...path(followed).map(({ word, p }) => [word, number(Math.log(p)), `log ${number(p)}`]),
      ["sum", number(total)],
      ["penalty", `÷ ${number(penalty(length, alpha))}`, divisor],
      ["score", fate === ENDED ? number(score) : "not in the pool"],
    ]),
    lines(234, [
      ["Pool: the best that have ended"],
      ...(ended.length ? ended.map((node) => [node.text, number(node.score, 3)]) : [["none yet"]]),
    ]),
    lines(366, [
      ["For comparison"],
      [`greedy: ${greedy.text}`, number(greedy.score, 3)],
      [`best: ${best.text}`, number(best.score, 3)],
    ]),
  ];
}

const follow = (node) => node?.parent && { column: node.length, rank: node.rank };

const TREE = {
  label: "followed hypothesis: move it with the arrow keys",
  look: "scrolls",
  draw: () => rect(0, TOP, LEFT[5] + WIDTH, HIGH, "clear"),
  drag: ([x, y], { columns }) => {
    const far = (node) => Math.hypot(LEFT[node.length] + WIDTH / 2 - x, node.y - y);
    return follow(columns.flat().sort((a, b) => far(a) - far(b))[0]);
  },
  keys: ([down, right], { columns, followed }) => {
    const [way, column] = [path(followed), columns[followed.length - 1]];
    if (down) return follow(column[clamp(followed.rank + down, 0, column.length - 1)]);
    if (right < 0) return follow(way.at(right - 1) ?? way[0]);
    const later = columns.slice(followed.length, followed.length + right);
    const continues = (node) => path(node).includes(followed);
    return follow(later.map((nodes) => nodes.find(continues)).findLast(Boolean));
  },
  valueText: ({ followed }) => `${followed.text}, ${followed.fate}`,
};

function describe({ all, columns, ended, followed, greedy, best }) {
  const follows = `You follow “${followed.text}” (${followed.fate}).`;
  if (columns.length < all.length) return ["The search continues.", follows];
  const finds = ({ score }) => (score < best.score - 1e-9 ? "misses" : "finds");
  return [
    `The search ${finds(ended[0])} the sentence with the best score.`,
    `Greedy decoding ${finds(greedy)} it.`,
    follows,
  ];
}

export default explorer({
  defaults: DEFAULTS,
  data: ["language"],
  read: run,
  panes: [
    { name: "the tree of hypotheses", size: [364, 440], draw: drawTree, handles: [TREE] },
    { name: "a sum, and the finished sentences", size: [SUM, 440], draw: drawSums },
  ],
  controls: {
    step: { label: "after step", options: [1, 2, 3, 4, 5], show: (n) => (n < 5 ? n : "the last") },
    beam_size: { label: "beam size K", options: [1, 2, 3, 4] },
    alpha: {
      label: "length penalty α",
      options: range(21).map((n) => n / 10),
      show: (n) => number(n, 1),
    },
  },
  compute,
  describe,
});
