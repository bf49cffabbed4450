// Tokenization: type a word, and watch its bytes merge into tokens, step by step.
import { explorer } from "./explorer.js";
import { range } from "./numbers.js";
import { disc, line, rect, text } from "./shapes.js";

const MOST = 20; // bytes in the text, and rows in the picture
const WORD = /'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const [LEFT, TOP, WIDTH, HEIGHT] = [84, 44, 420, 420];
const isVisible = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
const BYTES = range(256).sort((one, other) => isVisible(other) - isVisible(one)); // in id order
const OLD = { class: "paper edged", rx: 4 };
const NEW = {
  fill: "var(--lit)",
  class: "query",
  stroke: "currentColor",
  "stroke-width": 3,
  rx: 4,
};

// during merging, each token is a character whose code is its id, and a gap separates words
const GAP = "\uffff";
const join = (ids) => String.fromCharCode(...ids);
const idsOf = (tokens) => [...tokens.replaceAll(GAP, "")].map((token) => token.charCodeAt(0));
const write = (word) =>
  join([...new TextEncoder().encode(word)].map((byte) => BYTES.indexOf(byte)));

/** Apply the merges in order; return the ids after each merge that applies, and its number. */
function read({ text, merges, step }) {
  let tokens = (text.match(WORD) ?? []).map(write).join(GAP);
  const [steps, places] = [[idsOf(tokens)], [0]];
  const bytes = BYTES.map((byte) => [byte]); // of each token
  for (const [rank, [left, right, made]] of merges.entries()) {
    bytes[made] = [...bytes[left], ...bytes[right]];
    const merged = tokens.replaceAll(join([left, right]), join([made]));
    if (merged === tokens) continue;
    tokens = merged;
    steps.push(idsOf(tokens));
    places.push(rank + 1);
  }
  const last = steps.length - 1;
  const tall = Math.min(34, (HEIGHT - TOP) / steps.length); // of a row
  return { bytes, steps, places, last, row: Math.min(step, last), tall };
}

/** Return the steps, or throw an Error if the picture has no room for them. */
export function compute(state) {
  const found = read(state);
  const count = found.steps[0].length;
  if (count && count <= MOST) return found;
  throw new Error(`Type a text of 1 to ${MOST} bytes; this one has ${count}.`);
}

/** Write a token: its characters, or its bytes in base 16. */
function spellToken(bytes) {
  const words = new TextDecoder().decode(new Uint8Array(bytes)).replaceAll(" ", "␣");
  const hex = bytes.map((byte) => byte.toString(16).toUpperCase()).join(" ");
  return words.includes("\ufffd") ? hex : words;
}

function drawRow({ steps, places, bytes, tall }, row) {
  const wide = Math.min(28, (WIDTH - LEFT) / steps[0].length);
  const [top, middle] = [TOP + row * tall, TOP + (row + 0.5) * tall + 5];
  const style = `font-size: ${Math.min(13, 0.58 * wide)}px`; // of a byte in base 16
  let x = LEFT;
  const tokens = steps[row].map((id) => {
    const width = bytes[id].length * wide - 3;
    const look = row && !steps[row - 1].includes(id) ? NEW : OLD;
    x += width + 3;
    return [
      rect(x - width - 3, top + 2, width, tall - 4, look),
      text(x - width / 2 - 3, middle, spellToken(bytes[id]), { class: "middle", style }),
    ];
  });
  return [text(34, middle, row ? places[row] : "none"), tokens];
}

const draw = (state) => [
  text(34, 24, "merge", "bold"),
  text(LEFT, 24, "tokens", "bold"),
  range(state.row + 1).map((row) => drawRow(state, row)),
];

/** Go to a row; a reader in the last row stays in the last row when the text changes. */
const goTo = (row, last) => ({ step: row < last ? Math.max(row, 0) : MOST });

const BAR = {
  label: "merges: move the bar with the arrow keys",
  draw: ({ steps, row, tall }) => {
    const end = TOP + steps.length * tall;
    return [
      rect(0, TOP, LEFT - 12, end - TOP, "clear"),
      line(16, TOP, 16, end, { class: "line", "stroke-width": 4 }),
      disc(16, TOP + (row + 0.5) * tall, 9, "query"),
    ];
  },
  drag: ([, y], { tall, last }) => goTo(Math.floor((y - TOP) / tall), last),
  keys: ([rows, columns], { row, last }) => goTo(row + rows + columns, last),
  valueText: ({ row, last }) => `${row} of ${last}`,
};

function describe({ steps, places, row, last }) {
  const done = row
    ? `Merge number ${places[row]} is step ${row} of ${last}.`
    : `Nothing is merged yet; ${last} of the 200 merges apply to this text.`;
  const ids = steps[row];
  return `${done} The number of tokens is ${ids.length}, and their ids are ${ids.join(", ")}.`;
}

export default explorer({
  read,
  panes: [{ name: "the merges of the text", size: [WIDTH, HEIGHT], draw, handles: [BAR] }],
  controls: { text: { label: `text (at most ${MOST} bytes)`, kind: "text" } },
  compute,
  describe,
});
