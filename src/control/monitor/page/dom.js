// Elements, made and kept in step with what they show. Text is always set as text: names come from operators, and
// nothing here reads markup out of them.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** An attribute: none where the value is null or false; `onclick` and the like are listeners. */
export function set(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value))
    element.setAttribute(name, value === true ? "" : value);
}

/** An element of HTML. Children that are strings become text. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An element of SVG. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Sets text where it is another, so that nothing is laid out or read aloud anew for nothing. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Brings the children of `parent` in step with `items`: one element each, found again by its key, so that
 * the focus stays where it is. `make(item)` makes one, `update(element, item)` brings one up to date.
 */
export function sync(parent, items, key, make, update) {
  const known = new Map();
  for (const child of parent.children) known.set(child.dataset.key, child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = known.get(name);
    if (child) known.delete(name);
    else {
      child = make(item);
      child.dataset.key = name;
    }
    update?.(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of known.values()) child.remove();
}

/** A sign, which is told apart by its shape as well as by its colour; what it means is said beside it. */
export function sign(state) {
  return el("span", { class: `sign ${state}`, "aria-hidden": "true" }, SIGNS[state] ?? "?");
}

export const SIGNS = {
  healthy: "✓",
  unhealthy: "✕",
  draining: "↓",
  initial: "…",
  unused: "–",
  unavailable: "?",
  bad: "✕",
  warn: "!",
  note: "i",
  good: "✓",
  resets: "↯",
  config: "✎",
  drains: "↓",
  failovers: "⇄",
  lost: "?",
};
