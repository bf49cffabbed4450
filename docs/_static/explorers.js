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
    download,
    whenSeen,
  };
}

const files = {};

/** Return a file that stands next to the modules, and tell how many percent have arrived. */
async function download(name, progress) {
  const isShared = name in files;
  files[name] ??= read(name, progress);
  const file = files[name];
  try {
    return await file;
  } catch (error) {
    if (files[name] === file) delete files[name]; // the next call tries again
    if (isShared) return download(name, progress); // it was asked for after that try began
    throw error;
  }
}

async function read(name, progress) {
  const file = await fetch(new URL(name, here));
  if (!file.ok) throw new Error(file.statusText);
  const [parts, all] = [[], file.headers.get("Content-Length")];
  let done = 0;
  const reader = file.body.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    done += part.value.length;
    if (all) progress(Math.min(100, Math.round((100 * done) / all)));
  }
  return new Blob(parts).arrayBuffer();
}

/** Do something when an element gets the focus, or is on the screen while the page is idle. */
function whenSeen(element, act) {
  element.addEventListener("focusin", act);
  const whenIdle = globalThis.requestIdleCallback ?? setTimeout;
  const seen = new IntersectionObserver(([{ isIntersecting }]) => {
    if (!isIntersecting) return;
    seen.disconnect();
    whenIdle(act);
  });
  seen.observe(element);
}

for (const still of document.querySelectorAll("[data-explorer]")) {
  const { default: explorer } = await import(new URL(`${still.dataset.explorer}.js`, here));
  const live = document.createElement("div");
  explorer.render({ model: makeModel(JSON.parse(still.dataset.state)), el: live });
  still.replaceWith(live);
}
