// Beam search as a tree: hypotheses are kept, cut or ended; follow one, and read its sum.
import { explorer } from "./explorer.js";
import { clamp, number, range } from "./numbers.js";
import { disc, line, rect, text } from "./shapes.js";

const LOOK = {
  cut: { "stroke-width": 0 },
  kept: { class: "query", rx: 14 },
  ended: { class: "value" },
};
const LIMIT = 9; // the largest number of tokens in a sentence
const [TOP, HIGH, BOX, WIDTH, SUM] = [34, 404, 44, 54, 256];
const START = { word: "bos", total: 0, length: 0, rank: 0, y: TOP + 114, text: "" };

const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;
const path = (node) => (node.parent ? [...path(node.parent), node] : []);
const hasEnded = ({ fate }) => fate === "ended";
const poolOf = (columns, K) => {
  const ended = columns.flat().filter(hasEnded);
  return ended.sort((a, b) => b.score - a.score).slice(0, K);
};

/** Continue a hypothesis with every possible word. */
const grow = (parent, language) =>
  Object.entries(language[parent.word]).map(([word, p]) => {
    const [total, length] = [parent.total + Math.log(p), parent.length + 1];
    return { parent, word, p, total, length, text: `${parent.text} ${word}`.trim() };
  });

/** Search like the package; return the best 2K continuations of each step. */
function search(language, K, alpha) {
  const columns = [];
  for (let beam = [START]; beam.length; ) {
    if (beam[0].total / penalty(LIMIT, alpha) <= poolOf(columns, K)[K - 1]?.score) break;
    const grown = beam.flatMap((each) => grow(each, language));
    const column = grown.sort((a, b) => b.total - a.total).slice(0, 2 * K);
    beam = column.filter(({ word }) => word !== "end").slice(0, K);
    for (const [rank, node] of column.entries()) {
      const fate = beam.includes(node) ? "kept" : node.word === "end" && rank < K ? "ended" : "cut";
      const score = node.total / penalty(node.length, alpha);
      const y = TOP + (rank + 0.5) * Math.min(HIGH / column.length, 76);
      Object.assign(node, { rank, fate, score, y });
    }
    columns.push(column);
  }
  return columns;
}

/** Search up to a step; find the followed hypothesis, the greedy sentence and the best one. */
export function compute({ language, beam_size: K, alpha, step, sentence }) {
  const all = search(language, K, alpha);
  const columns = all.slice(0, step);
  const isOnTheWay = ({ text }) => `${sentence} `.startsWith(`${text} `);
  const followed = columns.flat().findLast(isOnTheWay) ?? columns[0][0];
  const greedy = search(language, 1, alpha).flat().find(hasEnded); // the first one that ends
  const [best] = poolOf(search(language, 16, alpha), 1); // wide enough to miss no sentence
  return { steps: all.length, columns, pool: poolOf(columns, K), followed, greedy, best };
}

const left = ({ length }) => 70 * length - 42; // of a box

function drawTree({ steps, columns, pool, followed }) {
  const [nodes, way] = [columns.flat(), path(followed)];
  const edge = (node, look) =>
    line(left(node.parent) + WIDTH, node.parent.y, left(node), node.y, look);
  const box = (node) => {
    const [x, middle] = [left(node), left(node) + WIDTH / 2];
    const fill = way.includes(node) ? "var(--lit)" : "var(--paper)";
    const frame = { stroke: "currentColor", "stroke-width": pool.includes(node) ? 5 : 2 };
    return [
      rect(x, node.y - BOX / 2, WIDTH, BOX, { fill, ...frame, ...LOOK[node.fate] }),
      text(middle, node.y - 9, node.word, `middle ${node.fate}`),
      text(middle, node.y + 4, number(node.total), "middle"),
      text(middle, node.y + 17, node.fate, "middle"),
    ];
  };
  return [
    text(0, 14, `Step ${columns.length} of ${steps}`, "title"),
    nodes.map((node) => edge(node, node.fate === "cut" ? "line dashed" : "line")),
    way.map((node) => edge(node, "thick")),
    disc(left(START) + WIDTH, START.y, 7),
    nodes.map(box),
  ];
}

/** Write lines with a number at the end of each; a line without a number is a title. */
function drawSums({ alpha, pool, followed, greedy, best }) {
  const { total, length, score } = followed;
  const divisor = number(penalty(length, alpha));
  const divided = `${number(total)} ÷ ${divisor} = ${number(score)}`;
  const lines = [
    ["You follow"],
    ...path(followed).map(({ word, p }) => [word, `log ${number(p)} = ${number(Math.log(p))}`]),
    ["sum", number(total)],
    ["penalty", `((5 + ${length}) / 6)^${number(alpha, 1)} = ${divisor}`],
    ["score", hasEnded(followed) ? divided : "not in the pool"],
    ...Array(6 - length).fill([]),
    ["For comparison"],
    [`greedy: ${greedy.text}`, number(greedy.score, 3)],
    [`best: ${best.text}`, number(best.score, 3)],
    [`Pool: ${pool.length ? "the best that have ended" : "none has ended yet"}`],
    ...pool.map(({ text, score }) => [text, number(score, 3)]),
  ];
  return lines.map(([words, value], n) => [
    text(0, 14 + 22 * n, words, value === undefined ? "title" : ""),
    text(SUM, 14 + 22 * n, value, "end"),
  ]);
}

const follow = ({ text }) => ({ sentence: text });

const TREE = {
  label: "followed hypothesis: move it with the arrow keys",
  look: "scrolls",
  draw: () => rect(0, TOP, 362, HIGH, "clear"),
  drag: ([x, y], { columns }) => {
    const isHere = (node) => Math.abs(left(node) + 27 - x) < 30 && Math.abs(node.y - y) < BOX / 2;
    return columns.flat().filter(isHere).map(follow)[0];
  },
  keys: ([down, right], { columns, followed }) => {
    const isInLine = (node) => path(node).includes(followed) || path(followed).includes(node);
    const inLine = columns.flatMap((column) => column.find(isInLine) ?? []);
    const nodes = down ? columns[followed.length - 1] : inLine;
    return follow(nodes[clamp(nodes.indexOf(followed) + down + right, 0, nodes.length - 1)]);
  },
  valueText: ({ followed }) => `${followed.text}, ${followed.fate}`,
};

function describe({ sentence, steps, columns, pool, followed, greedy, best }) {
  const isOver = columns.length === steps;
  const finds = ({ score }) => (score < best.score - 1e-9 ? "misses" : "finds");
  return [
    isOver && "The search stops, because no kept hypothesis can still enter the pool.",
    isOver && `It ${finds(pool[0])} the best sentence, and greedy decoding ${finds(greedy)} it.`,
    sentence !== followed.text && `“${sentence}” is not in this tree.`,
    `You follow “${followed.text}” (${followed.fate}).`,
  ];
}

export default explorer({
  read: compute, // the keyboard handler needs it, too
  panes: [
    { name: "the tree of hypotheses", size: [364, 440], draw: drawTree, handles: [TREE] },
    { name: "a sum, and the finished sentences", size: [SUM, 440], draw: drawSums },
  ],
  controls: {
    step: { label: "after step", options: [1, 2, 3, 4, 5], show: (n) => (n < 5 ? n : "the last") },
    beam_size: { label: "beam size K", options: [1, 2, 3, 4] },
    alpha: { label: "length penalty α", options: range(21).map((n) => n / 10) },
  },
  compute,
  describe,
});
