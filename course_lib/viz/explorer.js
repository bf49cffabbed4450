// What makes a drawing an explorer: controls, handles, and the loop that draws.
// A module calls `mount` with its state, its numbers and its drawing; see attention.js.
import { html, redraw, svg } from "./shapes.js";

const STEPS = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
  Home: [0, -1000],
  End: [0, 1000],
};

/** Make buttons that each set several traits; those of the present state are pressed. */
function makeButtons({ label, options }, changed) {
  const click = (values) => () => changed(values);
  const buttons = Object.entries(options).map(([words, values]) => [
    html("button", { type: "button", click: click(values) }, words),
    Object.entries(values),
  ]);
  const node = html("fieldset", {}, html("legend", {}, label), ...buttons.map(([each]) => each));
  const follow = (state) => {
    for (const [button, values] of buttons) {
      const isSet = values.every(([trait, value]) => state[trait] === value);
      button.setAttribute("aria-pressed", isSet);
    }
  };
  return { node, input: node, follow };
}

const INPUTS = {
  check: () => html("input", { type: "checkbox" }),
  choice: (options) => html("select", {}, ...options.map((each) => html("option", {}, each))),
  slider: () => html("input", { type: "range" }),
  text: () => html("input", { type: "text", spellcheck: "false" }),
};

/** Make a control of a kind for a trait of the state; it follows the state, too. */
function makeControl(name, { kind = "slider", label, options, show = String }, changed) {
  const [field, isSlider] = [kind === "check" ? "checked" : "value", kind === "slider"];
  const input = INPUTS[kind](options);
  const shown = html("span", { "aria-hidden": "true" }); // a slider says its value itself
  let values = options;
  const set = () => changed({ [name]: isSlider ? values[input.value] : input[field] });
  input.addEventListener("input", set);
  const follow = (state) => {
    if (typeof options === "function") values = options(state);
    if (isSlider) input.max = values.length - 1;
    const place = isSlider ? `${values.indexOf(state[name])}` : state[name];
    if (input[field] !== place) input[field] = place; // or the cursor of a text jumps
    if (!isSlider) return;
    shown.textContent = show(state[name]);
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  return { node: html("label", kind, html("span", {}, label), shown, input), input, follow };
}

/** Make a part of the drawing that the pointer drags and the keys move. */
function makeHandle(surface, { label, look = "drags", ...about }, current, changed) {
  const dragged = (event, phase) => {
    const matrix = surface.getScreenCTM().inverse();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    changed(about.drag([x, y], current(), phase));
  };
  const isTap = ({ pointerType }) => look === "scrolls" && pointerType === "touch";
  const pointerdown = (event) => {
    node.setPointerCapture(event.pointerId);
    event.preventDefault();
    node.focus({ preventScroll: true, focusVisible: false });
    if (!isTap(event)) dragged(event, "down");
  };
  const pointermove = (event) => {
    if (node.hasPointerCapture(event.pointerId) && !isTap(event)) dragged(event, "move");
  };
  const pointerup = (event) => isTap(event) && dragged(event, "down"); // not if it has scrolled
  const keydown = (event) => {
    const step = STEPS[event.key];
    if (!(step || event.key === " ") || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation(); // or the notebook moves to another cell
    changed(step ? about.keys(step, current()) : about.press?.(current()));
  };
  const listeners = { pointerdown, pointermove, pointerup, keydown };
  const role = { role: "slider", "aria-label": label, "aria-valuenow": 0, tabindex: 0 };
  const node = svg("g", { class: `handle ${look}`, ...role, ...listeners });
  const follow = (state, numbers) => {
    redraw(node, about.draw(state, numbers));
    node.setAttribute("aria-valuetext", about.valueText(state, numbers));
  };
  return { node, follow };
}

/** Make a picture, with its handles on top. */
function makePane({ name, size: [width, height], draw, handles = [] }, current, changed) {
  const scene = svg("g");
  const frame = { width, height, viewBox: `0 0 ${width} ${height}` };
  const surface = svg("svg", { ...frame, role: "group", "aria-label": name });
  const made = handles.map((each) => makeHandle(surface, each, current, changed));
  redraw(surface, scene, ...made.map(({ node }) => node));
  const follow = (state, numbers) => {
    redraw(scene, draw(state, numbers));
    for (const handle of made) handle.follow(state, numbers);
  };
  return { surface, follow };
}

/**
 * Show an explorer in an element, and draw it again whenever its state changes.
 *
 * `model` holds the state (anywidget's, or the site's). `view` has
 * - `defaults`, the first state, and perhaps `data`, the names of traits that only Python sets;
 * - perhaps `read(state)`, which returns what to add to the state for all functions below;
 * - `compute(state)`, which returns the numbers, and throws an Error if the input is wrong;
 * - `panes`, each with a `name`, a `size` [width, height], `draw(state, numbers)` and perhaps
 *   `handles`. A handle has a `label`, `draw`, `valueText(state, numbers)`, and what a pointer and
 *   a key change: `drag([x, y], state, phase)`, where the phase is "down" or "move",
 *   `keys([rows, columns], state)` for the arrow keys, Home, End and the page keys, and perhaps
 *   `press(state)` for the space bar. A finger scrolls the page on a handle whose `look` is
 *   "scrolls", where a tap is enough;
 * - `controls` by trait, each with a `label`, perhaps a `kind`, and `options`: a "slider" moves over
 *   a list, or over that of a function of the state, and shows `show(value)`; a "choice" lists
 *   words; "buttons" set several traits each; a "check" and a "text" have no options;
 * - perhaps `disabled(state)`, which lists the traits that do nothing now;
 * - `describe(state, numbers)`, which lists sentences about the picture; false ones are left out.
 */
export function mount(model, el, view) {
  const names = [...Object.keys(view.defaults), ...(view.data ?? [])];
  const current = () => {
    const state = Object.fromEntries(names.map((name) => [name, model.get(name)]));
    return { ...state, ...view.read?.(state) };
  };
  let isBusy = false;
  const changed = (values) => {
    if (!values) return;
    isBusy = true; // or every single value draws the picture
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    isBusy = false;
    update();
    model.save_changes();
  };
  const panes = view.panes.map((each) => makePane(each, current, changed));
  const controls = Object.entries(view.controls).map(([name, about]) => {
    const isButtons = about.kind === "buttons";
    return [name, isButtons ? makeButtons(about, changed) : makeControl(name, about, changed)];
  });
  const reset = () => changed(structuredClone(view.defaults));
  const button = html("button", { type: "button", click: reset }, "Reset");
  const said = html("p", { class: "said", role: "status" });
  const side = html("div", "side", ...controls.map(([, { node }]) => node), button, said);
  const pictures = html("div", "panes", ...panes.map(({ surface }) => surface));
  redraw(el, html("div", "explorer", pictures, side));

  function update() {
    const now = current();
    for (const [name, { input, follow }] of controls) {
      follow(now);
      input.disabled = Boolean(view.disabled?.(now)?.includes(name));
    }
    try {
      const numbers = view.compute(now);
      for (const pane of panes) pane.follow(now, numbers);
      said.textContent = [view.describe(now, numbers)].flat().filter(Boolean).join(" ");
      pictures.inert = false;
    } catch (error) {
      said.textContent = error.message;
      pictures.inert = true; // the last good picture stays, and waits for a better input
    }
  }
  for (const name of names) model.on(`change:${name}`, () => isBusy || update());
  update();
}

export const explorer = (view) => ({ render: ({ model, el }) => mount(model, el, view) });
