// The things that explorers draw: shapes, words, panels with axes, and tables of cells.
// A look is a class, or an object of attributes. The classes of explorer.css name colors: a shape
// is filled, and a line is drawn, in `query`, `key`, `value`, `future`, `line`, `faint`, `masked`,
// `paper` or, without a class, in the color of text.
import { clamp, number, range } from "./numbers.js";

const styled = (look) => (typeof look === "string" ? { class: look } : look);

/** Give an element attributes (functions become listeners) and children; false is left out. */
function fill(node, look, children) {
  for (const [key, value] of Object.entries(styled(look))) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.replaceChildren(...children.flat(Infinity).filter((child) => child || child === 0));
  return node;
}

export const html = (name, look = {}, ...children) =>
  fill(document.createElement(name), look, children);
export const svg = (name, look = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), look, children);
export const redraw = (node, ...children) => fill(node, {}, children);

export const rect = (x, y, width, height, look) =>
  svg("rect", { x, y, width, height, ...styled(look) });
export const disc = (cx, cy, r, look) => svg("circle", { cx, cy, r, ...styled(look) });
export const shape = (d, look) => svg("path", { d, ...styled(look) });
export const line = (x1, y1, x2, y2, look = "line") =>
  svg("line", { x1, y1, x2, y2, ...styled(look) });

/** Write words at a point; the classes `middle` and `end` align them, and `title` is bold. */
export const text = (x, y, words, look) => svg("text", { x, y, ...styled(look) }, words);
export const turned = (x, y, degrees, words, look) =>
  text(0, 0, words, { transform: `translate(${x} ${y}) rotate(${degrees})`, ...styled(look) });

// two color maps of the plots, as evenly spaced colors; they are the same in both themes
const CIVIDIS = "00224e 1a386f 434e6c 61656f 7d7c78 9b9476 bcae6c dec958 fee838".split(" ");
const RDBU_R = "053061 2a71b2 6bacd1 c2ddec f7f6f6 fbccb4 e48066 ba2832 67001f".split(" ");

/** Return the color of a value between 0 and 1 on a map, in steps that the eye does not see. */
function onMap(map, value) {
  const place = Math.round(256 * clamp(value, 0, 1)) / 32;
  const low = Math.min(Math.floor(place), 7);
  const share = Math.round(100 * (place - low));
  return `color-mix(in srgb, #${map[low + 1]} ${share}%, #${map[low]})`;
}

/** Return the color of a weight between 0 and 1: bright is large. */
export const shade = (weight) => onMap(CIVIDIS, weight);

/** Return the class of a number on the color of a weight. */
export const inkOn = (weight) => (weight < 0.5 ? "on-dark" : "on-bright");

/** Return the color of a value between −1 and 1: blue, white at 0, and red. */
export const signed = (value) => onMap(RDBU_R, (value + 1) / 2);

/** Describe a rectangle with axes: `place` turns values into a point, and `value` turns back. */
export function panel(left, top, width, height, { across, up, title, log = false }) {
  const scale = (value) => (log ? Math.log10(value) : value);
  const [low, high] = across.map(scale);
  const x = (value) => left + ((scale(value) - low) / (high - low)) * width;
  const y = (value) => top + ((up[1] - value) / (up[1] - up[0])) * height;
  const place = ([across, up]) => [x(across), y(up)];
  const value = ([px, py]) => [
    low + ((px - left) / width) * (high - low),
    up[1] - ((py - top) / height) * (up[1] - up[0]),
  ];
  const frame = ({ xTicks = [], yTicks = [], xLabel, yLabel, show = plain }) => [
    text(left, top - 10, title, "title"),
    xTicks.map((tick) => [
      line(x(tick), top, x(tick), top + height, "faint"),
      text(x(tick), top + height + 16, show(tick), "middle"),
    ]),
    yTicks.map((tick) => [
      line(left, y(tick), left + width, y(tick), "faint"),
      text(left - 6, y(tick) + 4, show(tick), "end"),
    ]),
    text(left + width / 2, top + height + 34, xLabel, "middle"),
    turned(left - 31, top + height / 2, -90, yLabel, "middle"),
  ];
  const curve = (points, look) =>
    svg("polyline", { points: points.map(place).join(" "), "stroke-width": 2, ...styled(look) });
  return { x, y, place, value, frame, curve };
}
const plain = (tick) => number(tick, tick % 1 ? 1 : 0);

/** Describe a table of equal cells, with rows and columns that are counted from 0. */
export function table(left, top, width, height, rows, columns) {
  const [wide, high] = [width / columns, height / rows];
  const [x, y] = [(column) => left + column * wide, (row) => top + row * high];
  const cells = range(rows * columns).map((n) => [Math.floor(n / columns), n % columns]);
  const write = (row, column, words, look = "") =>
    text(x(column + 0.5), y(row + 0.5) + 5, words, `middle ${look}`);
  /** Return the index of a cell in `cells`, or −1. */
  const place = ([row, column]) => cells.findIndex((cell) => cell[0] === row && cell[1] === column);
  /** Return the index in `cells` of the cell at a point, or −1. */
  const find = ([px, py]) => place([Math.floor((py - top) / high), Math.floor((px - left) / wide)]);
  /** Return the cell that is a step away, but stay inside the table. */
  const move = (cell, step) =>
    [rows, columns].map((count, axis) => clamp(cell[axis] + step[axis], 0, count - 1));
  /** Draw a rectangle around some cells, `more` pixels outside their edges. */
  const box = (row, column, look, { down = 1, across = 1, more = 0 } = {}) => {
    const size = [across * wide + 2 * more, down * high + 2 * more];
    return rect(x(column) - more, y(row) - more, ...size, look);
  };
  /** Fill all cells, with one shape for every color. */
  const map = (colorOf, look) => {
    const groups = Object.entries(Object.groupBy(cells, (cell) => colorOf(...cell)));
    const transform = `translate(${left} ${top}) scale(${wide} ${high})`;
    const square = ([row, column]) => `M${column},${row}h1v1h-1z`;
    const draw = ([fill, all]) => shape(all.map(square).join(""), { class: look, fill, transform });
    return groups.map(draw);
  };
  /** Write the words of rows and columns outside the table. */
  const words = (queries, keys) => [
    queries.map((word, row) => text(left - 8, y(row + 0.5) + 5, word, "end")),
    keys.map((word, column) => turned(x(column + 0.5), top - 8, -50, word)),
  ];
  return { x, y, wide, cells, place, find, move, box, map, write, words };
}
