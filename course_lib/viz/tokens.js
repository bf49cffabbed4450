// Tokenization: type a word, and watch its bytes merge into tokens, step by step.
import { explorer } from "./explorer.js";
import { range } from "./numbers.js";
import { disc, line, rect, shade, text } from "./shapes.js";

const MOST = 20; // bytes of the text, and rows of the picture
const WORD = /'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const [LEFT, TOP, WIDTH, HEIGHT] = [84, 44, 420, 420];
const NUMBERS = range(256);
const isVisible = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
const BYTES = [...NUMBERS.filter(isVisible), ...NUMBERS.filter((byte) => !isVisible(byte))];
const OLD = { class: "paper edged", rx: 4 };
const NEW = { fill: shade(0.5), class: "query", stroke: "currentColor", "stroke-width": 3, rx: 4 };
export const DEFAULTS = { text: "siebentausend", step: 3 };

/** Cut a text into words, and each word into the ids of its bytes. */
const split = (text) =>
  (text.match(WORD) ?? []).map((word) =>
    [...new TextEncoder().encode(word)].map((byte) => BYTES.indexOf(byte)),
  );

/** Glue two tokens together wherever they are neighbors, from left to right. */
function mergePair(tokens, [left, right, made]) {
  const merged = [];
  for (let n = 0; n < tokens.length; n += 1) {
    const isPair = tokens[n] === left && tokens[n + 1] === right;
    merged.push(isPair ? made : tokens[n]);
    if (isPair) n += 1;
  }
  return merged;
}

/** Apply the merges in their order; return the ids after each that fits, and its place. */
export function compute({ text, merges }) {
  let words = split(text);
  const steps = [words.flat()];
  const places = [0];
  if (!steps[0].length || steps[0].length > MOST)
    throw new Error(`Type a text of 1 to ${MOST} bytes; this one has ${steps[0].length}.`);
  merges.forEach((merge, rank) => {
    words = words.map((word) => mergePair(word, merge));
    const tokens = words.flat();
    if (tokens.length === steps[steps.length - 1].length) return;
    steps.push(tokens);
    places.push(rank + 1);
  });
  return { steps, places };
}

/** Return a function that writes a token: its characters, or its bytes in base 16. */
function speller(merges) {
  const bytes = BYTES.map((byte) => [byte]);
  for (const [left, right, made] of merges) bytes[made] = [...bytes[left], ...bytes[right]];
  return (id) => {
    const words = new TextDecoder().decode(new Uint8Array(bytes[id])).replaceAll(" ", "␣");
    const hex = bytes[id].map((byte) => byte.toString(16).toUpperCase()).join(" ");
    return { words: words.includes("\ufffd") ? hex : words, length: bytes[id].length };
  };
}

const last = ({ step }, { steps }) => Math.min(step, steps.length - 1);
const heightOf = ({ steps }) => Math.min(34, (HEIGHT - TOP) / steps.length);

function drawRow({ steps, places }, row, spell) {
  const [wide, tall] = [Math.min(28, (WIDTH - LEFT) / steps[0].length), heightOf({ steps })];
  const top = TOP + row * tall;
  const style = `font-size: ${Math.min(13, 0.65 * wide)}px`; // of a byte in base 16
  let x = LEFT;
  const tokens = steps[row].map((id) => {
    const { words, length } = spell(id);
    const look = row && !steps[row - 1].includes(id) ? NEW : OLD;
    const width = length * wide - 3;
    x += length * wide;
    return [
      rect(x - width - 3, top + 2, width, tall - 4, look),
      text(x - width / 2 - 3, top + tall / 2 + 5, words, { class: "middle", style }),
    ];
  });
  return [text(34, top + tall / 2 + 5, row ? places[row] : "none"), tokens];
}

function draw(state, numbers) {
  const rows = range(last(state, numbers) + 1);
  const spell = speller(state.merges);
  const heads = [text(34, 24, "merge", "bold"), text(LEFT, 24, "tokens", "bold")];
  return [heads, rows.map((row) => drawRow(numbers, row, spell))];
}

/** Go to a row; whoever is at the last one stays there when the text changes. */
const goTo = (row, { steps }) => ({ step: row < steps.length - 1 ? Math.max(row, 0) : MOST });

const BAR = {
  label: "merges: move the bar with the arrow keys",
  draw: (state, numbers) => {
    const tall = heightOf(numbers);
    const end = TOP + numbers.steps.length * tall;
    const cy = TOP + (last(state, numbers) + 0.5) * tall;
    return [
      rect(0, 0, LEFT - 4, end, "clear"),
      line(16, TOP, 16, end, { class: "line", "stroke-width": 4 }),
      disc(16, cy, 9, "query"),
    ];
  },
  drag: ([, y], state) => {
    const numbers = compute(state);
    return goTo(Math.floor((y - TOP) / heightOf(numbers)), numbers);
  },
  keys: ([rows, columns], state) => {
    const numbers = compute(state);
    return goTo(last(state, numbers) + rows + columns, numbers);
  },
  valueText: (state, numbers) => `${last(state, numbers)} of ${numbers.steps.length - 1}`,
};

function describe(state, numbers) {
  const row = last(state, numbers);
  const ids = numbers.steps[row];
  const count = ids.length === 1 ? "There is 1 token" : `There are ${ids.length} tokens`;
  const done = row
    ? `Merge number ${numbers.places[row]} is step ${row} of ${numbers.steps.length - 1}.`
    : `Nothing is merged yet; ${numbers.steps.length - 1} of the 200 merges will fit.`;
  return `${done} ${count}, with the ids ${ids.join(", ")}.`;
}

export default explorer({
  defaults: DEFAULTS,
  data: ["merges"],
  panes: [{ name: "the merges of the text", size: [WIDTH, HEIGHT], draw, handles: [BAR] }],
  controls: { text: { label: "text", kind: "text" } },
  compute,
  describe,
});
