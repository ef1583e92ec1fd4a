// Elements. Whatever the service says becomes a text node or an attribute value, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element. `props`: attributes, `class`, and listeners as `onclick`. */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** Make an SVG element. */
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Replace what an element holds. */
export const show = (element, ...children) => element.replaceChildren(...children.flat(3).filter(Boolean));

/** Draw a share of 1 as a bar; the number stands beside it, so it is not read out. */
export const bar = (share) => s("svg", { class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
  s("rect", { width: 100, height: 8, class: "ground" }), s("rect", { width: Math.max(0, Math.min(1, share)) * 100, height: 8 }));
