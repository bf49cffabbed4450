// Runs the explorers on the site, without a kernel: the same modules, with a state of their own.
const here = new URL("viz/", import.meta.url);

/** Keep a state as anywidget's model does. */
function makeModel(values) {
  const state = { names: Object.keys(values), ...values };
  const listeners = {};
  return {
    get: (name) => state[name],
    set: (name, value) => {
      const changed = state[name] !== value;
      state[name] = value;
      for (const listener of changed ? (listeners[`change:${name}`] ?? []) : []) listener();
    },
    on: (event, listener) => {
      listeners[event] = [...(listeners[event] ?? []), listener];
    },
    save_changes: () => {},
  };
}

for (const still of document.querySelectorAll("[data-explorer]")) {
  const { default: explorer } = await import(new URL(`${still.dataset.explorer}.js`, here));
  const live = document.createElement("div");
  explorer.render({ model: makeModel(JSON.parse(still.dataset.state)), el: live });
  still.replaceWith(live);
}
