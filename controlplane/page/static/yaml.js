// An object as YAML, and what two texts differ in, line by line.

const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./-]*$/;
const WORDS = new Set(["true", "false", "null", "yes", "no", "on", "off", "y", "n"]);

function scalar(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value !== "string") return String(value);
  if (value !== "" && PLAIN.test(value) && !WORDS.has(value.toLowerCase())) return value;
  return JSON.stringify(value);
}

function empty(value) {
  return Array.isArray(value) ? value.length === 0 : Object.keys(value).length === 0;
}

// Lines of a tree, keys in order.
export function yamlLines(tree, indent = "", lines = []) {
  if (Array.isArray(tree)) {
    for (const item of tree) {
      if (item !== null && typeof item === "object" && !empty(item)) {
        const inner = yamlLines(item, `${indent}  `);
        lines.push(`${indent}- ${inner[0].slice(indent.length + 2)}`, ...inner.slice(1));
      } else {
        lines.push(`${indent}- ${item !== null && typeof item === "object" ? (Array.isArray(item) ? "[]" : "{}") : scalar(item)}`);
      }
    }
    return lines;
  }
  for (const key of Object.keys(tree).sort()) {
    const value = tree[key];
    const name = `${indent}${scalar(key)}:`;
    if (value !== null && typeof value === "object") {
      if (empty(value)) lines.push(`${name} ${Array.isArray(value) ? "[]" : "{}"}`);
      else {
        lines.push(name);
        yamlLines(value, Array.isArray(value) ? indent : `${indent}  `, lines);
      }
    } else if (typeof value === "string" && value.includes("\n") && !/[^\n\x20-\x7e\u00a0-\uffff]/.test(value) && !value.startsWith(" ")) {
      lines.push(`${name} |${value.endsWith("\n") ? "" : "-"}`, ...value.replace(/\n$/, "").split("\n").map((line) => `${indent}  ${line}`));
    } else {
      lines.push(`${name} ${scalar(value)}`);
    }
  }
  return lines;
}

const MOST = 1200;

// [[mark, line]]: " " in both, "-" only before, "+" only after. Longest common part, ends first.
export function lineDiff(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const [a, b] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const found = before.slice(0, start).map((line) => [" ", line]);
  if (a.length > MOST || b.length > MOST) {
    found.push(...a.map((line) => ["-", line]), ...b.map((line) => ["+", line]));
  } else {
    const wide = b.length + 1;
    const table = new Uint16Array((a.length + 1) * wide);
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        table[i * wide + j] = a[i] === b[j] ? table[(i + 1) * wide + j + 1] + 1 : Math.max(table[(i + 1) * wide + j], table[i * wide + j + 1]);
      }
    }
    let [i, j] = [0, 0];
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) {
        found.push([" ", a[i]]);
        i += 1;
        j += 1;
      } else if (j >= b.length || (i < a.length && table[(i + 1) * wide + j] >= table[i * wide + j + 1])) {
        found.push(["-", a[i]]);
        i += 1;
      } else {
        found.push(["+", b[j]]);
        j += 1;
      }
    }
  }
  found.push(...(end ? before.slice(-end) : []).map((line) => [" ", line]));
  return found;
}
