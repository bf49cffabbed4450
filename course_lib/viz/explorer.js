// The parts that make a drawing an explorer: controls, handles, and the loop that draws.
// A module calls `explorer` with its state, its numbers and its drawing; see attention.js.
import { html, redraw, svg } from "./shapes.js";

const ROWS = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 };
const COLUMNS = { ArrowLeft: -1, ArrowRight: 1, Home: -1000, End: 1000 };

// In all functions, `link` returns the state with `current()`, sets traits with `changed(values)`,
// and lists `followers`, which get each new state, and `drawings`, which also get its numbers.

export const button = (words, click, look) =>
  html("button", { type: "button", click, class: look }, words);

/** Make a button for every value of a trait; the button of the current value is pressed. */
function makeButtons(name, { label, options }, { changed, followers }) {
  const buttons = options.map((each) => {
    const choice = button(each, () => changed({ [name]: each }));
    followers.push((state) => choice.setAttribute("aria-pressed", state[name] === each));
    return choice;
  });
  return html("fieldset", {}, html("legend", {}, label), buttons);
}

const INPUTS = {
  check: () => html("input", { type: "checkbox" }),
  choice: (options) => html("select", {}, ...options.map((each) => html("option", {}, each))),
  slider: (options) => html("input", { type: "range", max: options.length - 1 }),
  text: () => html("input", { type: "text", spellcheck: "false" }),
};

/** Make a control of the given kind for a trait of the state. */
function makeControl(name, { kind = "slider", label, options, show = String, isIdle }, link) {
  const [field, isSlider] = [kind === "check" ? "checked" : "value", kind === "slider"];
  const input = INPUTS[kind](options);
  const shown = html("span", { "aria-hidden": "true" }); // it reads its own value aloud
  const set = () => link.changed({ [name]: isSlider ? options[input.value] : input[field] });
  input.addEventListener("input", set);
  const tap = ({ target, currentTarget, clientX }) => {
    if (!isSlider || target !== currentTarget) return; // a tap next to the knob hits the label
    const { left, width } = input.getBoundingClientRect();
    input.value = ((clientX - left) / width) * input.max;
    set();
  };
  link.followers.push((state) => {
    const place = isSlider ? `${options.indexOf(state[name])}` : state[name];
    if (input[field] !== place) input[field] = place; // otherwise, the cursor in a text jumps
    input.disabled = Boolean(isIdle?.(state, name));
    if (!isSlider) return;
    shown.textContent = show(state[name]);
    input.setAttribute("aria-valuetext", shown.textContent);
  });
  return html("label", { class: kind, click: tap }, html("span", {}, label), shown, input);
}

/** Make a part of the drawing that the pointer drags and the keys move. */
function makeHandle({ label, look = "drags", ...about }, { current, changed, drawings }) {
  const dragged = (event, phase) => {
    const matrix = node.getScreenCTM().inverse();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    changed(about.drag([x, y], current(), phase));
  };
  const isTouch = ({ pointerType }) => pointerType === "touch";
  const pointerdown = (event) => {
    if (look === "drags" || !isTouch(event)) node.setPointerCapture(event.pointerId);
    event.preventDefault();
    node.focus({ preventScroll: true, focusVisible: false });
    if (!isTouch(event)) dragged(event, "down"); // or touchstart loses its target
  };
  const touchstart = (event) => look === "drags" && event.preventDefault(); // or Chromium scrolls
  const pointermove = (event) => node.hasPointerCapture(event.pointerId) && dragged(event, "move");
  const pointerup = (event) => isTouch(event) && dragged(event, "down"); // not if it has scrolled
  const keydown = (event) => {
    const step = [ROWS, COLUMNS].map((steps) => steps[event.key] ?? 0);
    const isStep = step.some(Boolean);
    if (!(isStep || event.key === " ") || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation(); // otherwise, the notebook moves to another cell
    changed(isStep ? about.keys(step, current()) : about.press?.(current()));
  };
  const listeners = { touchstart, pointerdown, pointermove, pointerup, keydown };
  const role = { role: "slider", "aria-label": label, "aria-valuenow": 0, tabindex: 0 };
  const node = svg("g", { class: `handle ${look}`, ...role, ...listeners });
  drawings.push((state, numbers) => {
    redraw(node, about.draw(state, numbers));
    node.setAttribute("aria-valuetext", about.valueText(state, numbers));
  });
  return node;
}

/** Make a picture, with its handles on top. */
function makePane({ name, size: [width, height], draw, handles = [] }, link) {
  const scene = svg("g");
  link.drawings.push((state, numbers) => redraw(scene, draw?.(state, numbers)));
  const parts = handles.map((each) => makeHandle(each, link));
  const frame = { width, height, viewBox: `0 0 ${width} ${height}` };
  return svg("svg", { ...frame, role: "group", "aria-label": name }, scene, parts);
}

/**
 * Show an explorer in an element, and redraw it whenever its state changes.
 *
 * `model` holds the state, the `names` of its traits, and the `heading`'s two parts. `view` has
 * - `compute(state)`, which returns the numbers, or throws an Error if the input is wrong, and
 *   `describe(state, numbers)`, which lists sentences about the picture; `false` is left out;
 * - `panes`, each with a `name`, a `size` [width, height], and `draw(state, numbers)` or `handles`
 *   or both. A handle has a `label`, `draw` and `valueText(state, numbers)`, and functions that
 *   return what to change: `drag([x, y], state, phase)`, where the phase is "down" or "move",
 *   `keys([rows, columns], state)`, and perhaps `press(state)` for the space bar. If its `look` is
 *   "scrolls", a finger that moves scrolls the page, and a tap presses;
 * - `controls` by trait, each with a `label`, perhaps `isIdle(state, trait)`, and a `kind`: a
 *   "slider" (written by `show`), a "choice" or "buttons" (all over `options`), "check" or "text";
 * - perhaps `actions(model, el, changed)` by the words of a button; `read(state)`, which returns
 *   additions to the state; `layout`, a class of explorer.css; `data`, the names of values that the module adds to the model; and
 *   `start(model, el)`, which is called at the end.
 */
function mount(model, el, view) {
  const names = [...model.get("names"), ...(view.data ?? [])];
  const get = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const first = get();
  const current = () => ({ ...get(), ...view.read?.(get()) });
  let isBusy = false;
  const changed = (values) => {
    if (!values) return;
    isBusy = true; // otherwise, each value would redraw the picture
    for (const [name, value] of Object.entries(values)) model.set(name, value);
    isBusy = false;
    update();
    model.save_changes();
  };
  const link = { current, changed, followers: [], drawings: [] };
  const controls = Object.entries(view.controls).map(([name, about]) =>
    about.kind === "buttons" ? makeButtons(name, about, link) : makeControl(name, about, link),
  );
  const actions = Object.entries(view.actions ?? {}).map(([words, act]) =>
    button(words, () => act(model, el, changed)),
  );
  const said = html("p", { class: "said", role: "status" });
  const panes = html("div", "panes", ...view.panes.map((each) => makePane(each, link)));
  const [title, question] = model.get("heading");
  const head = html("p", "head", html("strong", {}, title), ` ${question}`);
  const reset = button("Reset", () => changed(first), "reset");
  const top = html("div", "controls", controls, actions, reset);
  const look = `frame ${view.layout ?? ""}`;
  redraw(el, html("div", "explorer", html("div", look, head, top, panes, said)));

  function update() {
    const now = current();
    for (const follow of link.followers) follow(now);
    try {
      const numbers = view.compute(now);
      for (const draw of link.drawings) draw(now, numbers);
      said.textContent = [view.describe(now, numbers)].flat().filter(Boolean).join(" ");
      panes.inert = false;
    } catch (error) {
      said.textContent = error.message;
      panes.inert = true; // the last good picture stays until the input is valid
    }
  }
  for (const name of names) model.on(`change:${name}`, () => isBusy || update());
  update();
  view.start?.(model, el);
}

export const explorer = (view) => ({ render: ({ model, el }) => mount(model, el, view) });
