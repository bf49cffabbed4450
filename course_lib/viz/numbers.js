// Sums, softmax and ranges, and how explorers write numbers.

export const range = (length) => [...Array(length).keys()];
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const grouped = (value) => value.toLocaleString("en-US"); // with commas
export const dot = (one, other) => one.reduce((total, value, n) => total + value * other[n], 0);

/** Average vectors with weights. */
export const mix = (weights, vectors) =>
  vectors[0].map((_, n) => sum(vectors.map((vector, s) => weights[s] * vector[n])));

/** Return one number of the sinusoidal code of a position, rounded to 32 bits as in Python. */
export function sinusoid(position, column, width) {
  const angle = position / 10000 ** ((column - (column % 2)) / width);
  return Math.fround(column % 2 ? Math.cos(angle) : Math.sin(angle));
}

/** Turn scores into weights; a score of −∞ is blocked, and a row with no other scores stays 0. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => (score === -Infinity ? 0 : Math.exp(score - top)));
  const total = sum(powers) || 1;
  return powers.map((each) => each / total);
}

/** Write a number with a real minus sign. */
export const number = (value, digits = 2) => {
  const size = Math.abs(value).toFixed(digits);
  return value < 0 && Number(size) ? `−${size}` : size;
};

/** Write a power of ten, such as 10⁻³. */
export const power = (exponent) =>
  `10${[...`${exponent}`].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻").join("")}`;

/** Shorten a word to at most `most` letters. */
export const cut = (word, most) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);
