// Elements from code. Text is only ever set as text, so nothing in a run can become markup.

export function h(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (name === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) made.append(child);
  }
  return made;
}

export function seconds(ns) {
  const s = ns / 1e9;
  if (s === 0) return "0 s";
  if (s < 1e-3) return `${Number((s * 1e6).toPrecision(3))} µs`;
  if (s < 1) return `${Number((s * 1e3).toPrecision(3))} ms`;
  return `${s >= 1000 ? Math.round(s).toLocaleString("en") : Number(s.toPrecision(6))} s`;
}

export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export function size(bytes) {
  for (const [unit, one] of [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]]) {
    if (bytes >= one) return `${Number((bytes / one).toPrecision(3))} ${unit}`;
  }
  return String(Math.round(bytes));
}

// A colour of the page's palette, for canvases.
export function colours(names) {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// A canvas as large as its box, sharp on every screen; its context in CSS pixels.
export function fitted(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const [w, h2] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h2) {
    canvas.width = w;
    canvas.height = h2;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

// A name in camel case that may be broken before each word, so that narrow columns show it whole.
export function breakable(name) {
  return name.split(/(?<=[a-z])(?=[A-Z])/).flatMap((word, at) => (at ? [h("wbr"), word] : [word]));
}

// Something that may be wider than its place, a table say: it scrolls by keys too, and has a name.
export function wide(name, child) {
  return h("div", { class: "wide", role: "region", tabindex: "0", "aria-label": name }, child);
}
