// What all explorers share: SVG, controls, panels with axes, handles, and the loop that draws.
// A module calls `mount` with its state, its numbers and its drawing; see attention.js.

const CSS = `
.explorer { --ink: #222; --paper: #fff; --line: #8a8a8a; --faint: #ddd; --masked: #bbb;
  --query: #0072b2; --key: #d55e00; --value: #009e73; --future: #d00000;
  display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: flex-start; max-width: 62rem;
  padding: 8px; color: var(--ink); background: var(--paper); font: 14px/1.4 sans-serif; }
.explorer.dark { --ink: #eee; --paper: #16181c; --line: #8f8f8f; --faint: #3a3d42;
  --masked: #5a5a5a; --query: #4fb3f0; --key: #ff8f3f; --value: #2cc79a; --future: #ff6b6b; }
.explorer .panes { flex: 1 1 320px; display: flex; flex-wrap: wrap; gap: 8px 16px; }
.explorer svg { flex: 0 1 auto; max-width: 100%; height: auto; touch-action: pan-y;
  user-select: none; overflow: visible; }
.explorer svg text { fill: var(--ink); font-size: 13px; }
.explorer svg .title { font-weight: 600; font-size: 14px; }
.explorer [tabindex]:focus-visible { outline: 3px solid var(--query); outline-offset: 2px; }
.explorer .handle { cursor: grab; touch-action: none; }
.explorer .side { flex: 1 1 200px; max-width: 300px; display: grid; gap: 8px; }
.explorer label { display: grid; gap: 2px; }
.explorer summary { cursor: pointer; }
.explorer label.check { grid-template-columns: auto 1fr; gap: 6px; align-items: center; }
.explorer .row { display: flex; justify-content: space-between; gap: 8px; }
.explorer :is(input, select, button) { font: inherit; color: inherit; accent-color: var(--query); }
.explorer :is(input[type=text], select, button) { background: var(--paper);
  border: 1px solid var(--line); border-radius: 4px; padding: 3px 8px; min-width: 0; }
.explorer fieldset { display: flex; flex-wrap: wrap; gap: 4px; margin: 0; padding: 0; border: 0; }
.explorer legend { padding: 0; }
.explorer button[aria-pressed=true] { color: var(--paper); background: var(--query); }
.explorer input[type=range] { width: 100%; margin: 0; }
.explorer .said { min-height: 6em; margin: 0; white-space: pre-line;
  overflow-wrap: anywhere; }
.explorer .said.wrong { color: var(--future); font-weight: 600; }`;

/** Make an element of a namespace with attributes (functions become listeners) and children. */
function make(create, name, attributes, children) {
  const node = create(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null));
  return node;
}

export const html = (name, attributes = {}, ...children) =>
  make((tag) => document.createElement(tag), name, attributes, children);

export const svg = (name, attributes = {}, ...children) =>
  make((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag), name, attributes, children);

/** Write words at a place of the drawing; `anchor` is start, middle or end. */
export const text = (x, y, words, { anchor = "start", ...more } = {}) =>
  svg("text", { x, y, "text-anchor": anchor, ...more }, words);

export const line = (x1, y1, x2, y2, more = {}) =>
  svg("line", { x1, y1, x2, y2, stroke: "var(--line)", ...more });

/** Draw a curve through points; not finite ones interrupt it. */
export function curve(points, more = {}) {
  let pen = "M";
  const steps = points.map(([x, y]) => {
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      pen = "M";
      return "";
    }
    const step = `${pen}${x.toFixed(2)},${y.toFixed(2)}`;
    pen = "L";
    return step;
  });
  return svg("path", { d: steps.join(""), fill: "none", "stroke-width": 2, ...more });
}

/** Write a number with a real minus sign. */
export const number = (value, digits = 2) => {
  const rounded = value.toFixed(digits);
  return (Number(rounded) === 0 ? rounded.replace("-", "") : rounded).replace("-", "−");
};

/** Write a power of ten, such as 10⁻³. */
export const power = (exponent) =>
  `10${[...`${exponent}`].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("")}`;

/** Return the color of a value between 0 and 1, from pale to dark blue on paper. */
export const shade = (value) =>
  `color-mix(in srgb, var(--query) ${(100 * Math.min(Math.max(value, 0), 1)).toFixed(1)}%, var(--paper))`;

/** Return the color of a value between −1 and 1, from blue over paper to orange. */
export const signed = (value) =>
  `color-mix(in srgb, var(${value < 0 ? "--query" : "--key"}) ${(100 * Math.min(Math.abs(value), 1)).toFixed(1)}%, var(--paper))`;

/** Describe a rectangle with two axes: `x` and `y` turn values into places. */
export function panel(left, top, width, height, { across, up, title, log = false }) {
  const scale = (value) => (log ? Math.log10(value) : value);
  const [low, high] = across.map(scale);
  const x = (value) => left + ((scale(value) - low) / (high - low)) * width;
  const y = (value) => top + height - ((value - up[0]) / (up[1] - up[0])) * height;
  const frame = ({ xTicks = [], yTicks = [], xLabel, yLabel, show = (tick) => `${tick}` } = {}) => [
    text(left, top - 10, title, { class: "title" }),
    xTicks.map((tick) => [
      line(x(tick), top, x(tick), top + height, { stroke: "var(--faint)" }),
      text(x(tick), top + height + 16, show(tick), { anchor: "middle" }),
    ]),
    yTicks.map((tick) => [
      line(left, y(tick), left + width, y(tick), { stroke: "var(--faint)" }),
      text(left - 6, y(tick) + 4, show(tick), { anchor: "end" }),
    ]),
    xLabel && text(left + width / 2, top + height + 34, xLabel, { anchor: "middle" }),
    yLabel && text(0, 0, yLabel, { anchor: "middle", transform: `translate(${left - 34} ${top + height / 2}) rotate(-90)` }),
  ];
  const value = ([px, py]) => [
    low + ((px - left) / width) * (high - low),
    up[0] + ((top + height - py) / height) * (up[1] - up[0]),
  ];
  return { x, y, frame, value };
}

/** Make a control of a kind for a trait of the state; it follows the state, too. */
function control(model, name, { label, kind = "slider", options, min, max, step, show = String }, changed) {
  const id = `explorer-${name}-${Math.random().toString(36).slice(2)}`;
  const set = (value) => changed({ [name]: value });
  if (kind === "check") {
    const input = html("input", { type: "checkbox", id, change: () => set(input.checked) });
    const follow = () => { input.checked = model.get(name); };
    return { node: html("label", { class: "check", for: id }, input, label), input, follow };
  }
  if (kind === "choice") {
    const items = options.map((option) => html("option", { value: option }, option));
    const input = html("select", { id, change: () => set(input.value) }, items);
    const follow = () => { input.value = model.get(name); };
    return { node: html("label", { for: id }, label, input), input, follow };
  }
  if (kind === "buttons") { // each sets several traits
    const buttons = Object.entries(options).map(([words, values]) =>
      [html("button", { type: "button", click: () => changed(structuredClone(values)) }, words), Object.entries(values)]);
    const input = html("fieldset", {}, html("legend", {}, label), buttons.map(([button]) => button));
    const isSet = (values) => values.every(([trait, value]) => model.get(trait) === value);
    const follow = () => buttons.forEach(([button, values]) => button.setAttribute("aria-pressed", isSet(values)));
    return { node: input, input, follow };
  }
  if (kind === "text") {
    const input = html("input", { type: "text", id, input: () => set(input.value), spellcheck: "false" });
    const follow = () => { if (input.value !== model.get(name)) input.value = model.get(name); };
    return { node: html("label", { for: id }, label, input), input, follow };
  }
  const range = options ? { min: 0, max: options.length - 1, step: 1 } : { min, max, step };
  const value = (place) => (options ? options[place] : place);
  const place = (given) => (options ? options.indexOf(given) : given);
  const output = html("output", { for: id });
  const input = html("input", { type: "range", id, ...range, input: () => set(value(Number(input.value))) });
  const follow = (limits = {}) => {
    Object.assign(input, limits);
    input.value = place(model.get(name));
    output.textContent = show(model.get(name));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  return { node: html("label", { for: id }, html("span", { class: "row" }, html("span", {}, label), output), input), input, follow };
}

/** Make a part of the drawing that the pointer drags and the arrow keys move. */
function handle(surface, { label, draw, drag, keys, valueText }, current, changed) {
  const node = svg("g", { class: "handle", tabindex: 0, role: "slider", "aria-label": label });
  const at = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(surface.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    event.preventDefault();
    node.focus({ preventScroll: true });
    changed(drag(at(event), current(), "down"));
  });
  node.addEventListener("pointermove", (event) => {
    if (node.hasPointerCapture(event.pointerId)) changed(drag(at(event), current(), "move"));
  });
  node.addEventListener("keydown", (event) => {
    const next = keys?.(event.key, current());
    if (!next) return;
    event.preventDefault();
    event.stopPropagation(); // or the notebook moves to another cell
    changed(next);
  });
  const follow = (state, numbers) => {
    node.replaceChildren(...[draw(state, numbers)].flat(Infinity).filter(Boolean));
    node.setAttribute("aria-valuetext", valueText(state, numbers));
    node.setAttribute("aria-valuenow", 0);
  };
  return { node, follow };
}

/** Say whether the page around an element is dark. */
function isDark(el) {
  const theme = document.documentElement.dataset.theme ?? document.body.dataset.jpThemeLight;
  if (theme === "dark" || theme === "false") return true;
  if (theme === "light" || theme === "true") return false;
  return el.ownerDocument.defaultView.matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Show an explorer in an element, and draw it again whenever its state changes.
 *
 * `model` holds the state (anywidget's, or the site's). `view` has `defaults`, the first state;
 * `controls` by trait, and `more`, those behind “More”; `panes`, each with a `name`, a `size`
 * [width, height], `draw(state, numbers)` and perhaps `handles`; `data`, the names of traits that only Python
 * sets; `compute(state)`, which returns the numbers,
 * and throws an Error if the input is wrong; `describe(state, numbers)`; and, if needed, `limits(state)`
 * and `disabled(state)` of controls.
 */
export function mount(model, el, view) {
  const names = [...Object.keys(view.defaults), ...(view.data ?? [])];
  const state = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const changed = (values) => {
    if (!values) return;
    isBusy = true; // or every single value draws the picture
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    isBusy = false;
    update();
    model.save_changes();
  };
  let isBusy = false;
  const panes = view.panes.map(({ name, size: [width, height], draw, handles = [] }) => {
    const scene = svg("g");
    const surface = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": name }, scene);
    const made = handles.map((each) => handle(surface, each, state, changed));
    surface.append(...made.map((each) => each.node));
    const follow = (now, numbers) => {
      scene.replaceChildren(...[draw(now, numbers)].flat(Infinity).filter(Boolean));
      made.forEach((each) => each.follow(now, numbers));
    };
    return { surface, follow };
  });
  const said = html("p", { class: "said", role: "status" });
  const entries = (wanted) => Object.entries(wanted ?? {}).map(([name, about]) => [name, control(model, name, about, changed)]);
  const first = entries(view.controls);
  const later = entries(view.more);
  const reset = html("button", { type: "button", click: () => changed(structuredClone(view.defaults)) }, "Reset");
  const more = later.length ? html("details", {}, html("summary", {}, "More"), later.map(([, each]) => each.node)) : undefined;
  const side = html("div", { class: "side" }, first.map(([, each]) => each.node), more, reset, said);
  const root = html("div", { class: "explorer" }, html("style", {}, CSS), html("div", { class: "panes" }, panes.map((each) => each.surface)), side);
  el.replaceChildren(root);

  function update() {
    const now = state();
    for (const [name, each] of [...first, ...later]) {
      each.follow(view.limits?.(now)?.[name]);
      each.input.disabled = Boolean(view.disabled?.(now)?.includes(name));
    }
    try {
      const numbers = view.compute(now);
      panes.forEach((each) => each.follow(now, numbers));
      said.textContent = view.describe(now, numbers);
      said.classList.remove("wrong");
    } catch (error) {
      said.textContent = error.message;
      said.classList.add("wrong");
    }
  }
  const paint = () => root.classList.toggle("dark", isDark(el));
  const watch = new MutationObserver(paint);
  watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  names.forEach((name) => model.on(`change:${name}`, () => isBusy || update()));
  paint();
  update();
  return () => watch.disconnect();
}
