// Attempts to schedule pods: what every plugin said of every node, and how the pod went through the queue.

import { breakable, counted, h, seconds, wide } from "./dom.js";
import { lastNotAbove } from "./model.js";

const ATTEMPTS = 160;
const ENDS = { "scheduler.assumed": "chose", "scheduler.failed": "failed", "scheduler.skip": "skipped" };
const TABLES = [["filter", "Filter", "Which nodes each plugin let pass"], ["score", "Score", "What each plugin gave, before normalising"], ["final", "Final score", "Normalised and weighted; the sum decides"]];

export class Results {
  constructor(app) {
    this.app = app;
    this.filter = h("input", { type: "search", class: "query", placeholder: "Filter by pod, node or reason", "aria-label": "Filter attempts", spellcheck: "false" });
    this.list = h("ul", { class: "attempts" });
    this.detail = h("div", { class: "attempt", tabindex: "0", role: "region", "aria-label": "The attempt" });
    this.count = h("p", { class: "note", role: "status" });
    this.element = h("div", { class: "results" }, h("div", { class: "attempt-list" }, this.filter, this.count, this.list), this.detail);
    this.filter.addEventListener("input", () => {
      this.seen = "";
      app.changed();
    });
  }

  // All attempts, from the log: what they ended with, and the table that belongs to each.
  attempts(model) {
    if (this.of === model && this.known === model.count) return this.all;
    this.of = model;
    this.known = model.count;
    const ends = new Map(model.texts.map((text, number) => [number, ENDS[text]]).filter(([, end]) => end));
    const tables = new Map();
    model.attempts.uid.forEach((uid, at) => {
      if (!tables.has(uid)) tables.set(uid, []);
      tables.get(uid).push(at);
    });
    this.all = [];
    for (let at = 0; at < model.count; at += 1) {
      const end = ends.get(model.ev.event[at]);
      if (!end) continue;
      const step = model.ev.step[at];
      const mine = tables.get(model.ev.uid[at]) ?? [];
      const table = mine[lastNotAbove(mine.map((each) => model.attempts.step[each]), step)];
      this.all.push({ at, step, end, table: end === "skipped" ? undefined : table, obj: model.text(model.ev.obj[at]), uid: model.text(model.ev.uid[at]), data: model.data(at) });
    }
    return this.all;
  }

  draw(step) {
    const { model } = this.app;
    const word = this.filter.value.trim().toLowerCase();
    const filtered = `${model.revision} ${model.run.name} ${word}`;
    if (filtered !== this.filtered) {
      this.filtered = filtered;
      this.matching = this.attempts(model).filter((each) => !word || `${each.obj} ${each.data.node ?? ""} ${each.data.message ?? ""} ${each.data.reason ?? ""}`.toLowerCase().includes(word));
      this.steps = this.matching.map((each) => each.step);
      this.seen = "";
    }
    const { matching } = this;
    const now = lastNotAbove(this.steps, step);
    const current = matching[now] ?? matching[0];
    const name = current ? `${current.at}` : "none";
    if (name === this.seen) {
      this.markLater(step);
      return;
    }
    this.seen = name;
    const start = Math.max(0, Math.min(now - ATTEMPTS / 2, matching.length - ATTEMPTS));
    this.count.textContent = `${counted(matching.length, "attempt")}${matching.length > ATTEMPTS ? `, ${ATTEMPTS} around this step below` : ""}`;
    this.list.replaceChildren(...matching.slice(start, start + ATTEMPTS).map((each) => {
      const made = h("button", { type: "button", class: `attempt-row is-${each.end}${each === current ? " current" : ""}`, "aria-current": each === current ? "true" : undefined },
        h("span", { class: "entry-step", text: String(each.step) }),
        h("span", {}, h("b", { text: each.obj.replace("Pod/", "") }), h("span", { class: "dim", text: ` ${outcome(each)}` })));
      made.addEventListener("click", () => this.app.go(each.step));
      return h("li", {}, made);
    }));
    this.list.querySelector(".current")?.scrollIntoView({ block: "nearest" });
    this.drawAttempt(current, step);
  }

  // Of the pod's way through the queue, what is still to come.
  markLater(step) {
    for (const row of this.detail.querySelectorAll("tr[data-step]")) row.classList.toggle("later", Number(row.dataset.step) > step);
  }

  drawAttempt(each, step) {
    const { model } = this.app;
    if (!each) {
      this.detail.replaceChildren(h("p", { class: "note", text: "No pod was tried in this run." }));
      return;
    }
    const parts = [h("h2", { text: each.obj.replace("Pod/", "") }),
      h("p", {}, each.data.attempt ? `Attempt ${each.data.attempt}, ` : "", "ended at ", this.app.side.stepLink(each.step), ` after ${seconds(model.stepTime[each.step])}: ${outcome(each)}`)];
    const body = each.table === undefined ? null : model.attempts.body[each.table];
    if (body) {
      parts.push(h("p", { class: "dim", text: `${counted(body.looked, "node")} looked at${body.selected ? `, ${body.selected} chosen` : ""}` }));
      const refused = Object.entries(body.prefilter).filter(([, said]) => said && said !== "success");
      if (refused.length) parts.push(h("h3", { text: "PreFilter" }), h("ul", {}, refused.map(([plugin, said]) => h("li", { text: `${plugin}: ${said}` }))));
      for (const [name, title, what] of TABLES) if (body[name].nodes.length) parts.push(h("h3", {}, title, h("span", { class: "dim", text: `: ${what}` })), this.table(model, body[name], name, body.selected));
      const most = Math.max(...TABLES.map(([name]) => body[name].nodes.length), 0);
      if (most < body.looked) parts.push(h("p", { class: "note", text: `The tables name ${most} of ${counted(body.looked, "node")}.` }));
      if (!body.score.nodes.length && body.selected) parts.push(h("p", { class: "note", text: "Only one node was left, so nothing was scored." }));
    } else {
      parts.push(...this.fromLog(each));
    }
    const history = model.queueHistory(each.uid);
    if (history.length) {
      parts.push(h("h3", { text: "The pod's way through the queue" }), wide("The pod's way through the queue", h("table", { class: "grid" },
        h("thead", {}, h("tr", {}, ["Step", "Time", "Queue", "", "Attempts", "Refused by"].map((text) => h("th", { scope: "col", text })))),
        h("tbody", {}, history.map((row) => h("tr", { class: row.step > step ? "later" : "", "data-step": row.step }, h("td", {}, this.app.side.stepLink(row.step, String(row.step))), h("td", { class: "number", text: seconds(model.stepTime[row.step]) }),
          h("td", { text: row.place }), h("td", { text: row.there ? (row.until ? `until ${seconds(row.until)}` : "comes") : "leaves" }), h("td", { class: "number", text: row.there ? String(row.attempts) : "" }), h("td", { text: row.plugins })))))));
    }
    this.detail.replaceChildren(...parts);
  }

  table(model, { plugins, nodes, cells }, name, selected) {
    const sums = name === "final";
    const rows = nodes.map((node, row) => {
      const values = plugins.map((_, at) => cells[row * plugins.length + at]);
      return { node: model.text(node), values, sum: values.reduce((sum, value) => sum + Math.max(0, value), 0) };
    });
    if (sums) rows.sort((a, b) => b.sum - a.sum);
    const cell = (value) => {
      if (name !== "filter") return h("td", { class: "number", text: String(value) });
      const said = value < 0 ? "" : model.text(value);
      return h("td", { class: said === "passed" ? "passed" : said ? "refused" : "dim", text: said === "passed" ? "✓" : said || "-", title: said === "passed" ? "passed" : said || "not asked, the node was out already" });
    };
    return wide({ filter: "Filter", score: "Score", final: "Final score" }[name], h("table", { class: "grid plugins" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Node" }), sums ? h("th", { scope: "col", text: "Sum" }) : null, plugins.map((plugin) => h("th", { scope: "col" }, breakable(model.text(plugin)))))),
      h("tbody", {}, rows.map((row) => h("tr", { class: row.node === selected ? "chosen" : "" }, h("th", { scope: "row", text: row.node }), sums ? h("td", { class: "number", text: String(row.sum) }) : null, row.values.map(cell))))));
  }

  // Without a replay the plugins' answers are those of the log.
  fromLog(each) {
    const parts = [];
    if (each.data.refused?.length) {
      parts.push(h("h3", { text: "Refused" }), wide("Refused", h("table", { class: "grid" }, h("thead", {}, h("tr", {}, ["Plugin", "Why", "Nodes"].map((text) => h("th", { scope: "col", text })))),
        h("tbody", {}, each.data.refused.map((row) => h("tr", {}, h("td", { text: row.plugin }), h("td", { text: row.message }), h("td", { text: `${row.count}: ${row.nodes.join(", ")}` })))))));
    }
    if (each.data.scores) {
      const nodes = Object.keys(each.data.scores);
      const plugins = [...new Set(nodes.flatMap((node) => Object.keys(each.data.scores[node])))];
      parts.push(h("h3", { text: "Final score" }), wide("Final score", h("table", { class: "grid plugins" }, h("thead", {}, h("tr", {}, ["Node", ...plugins].map((text) => h("th", { scope: "col" }, breakable(text))))),
        h("tbody", {}, nodes.map((node) => h("tr", { class: node === each.data.node ? "chosen" : "" }, h("th", { scope: "row", text: node }), plugins.map((plugin) => h("td", { class: "number", text: String(each.data.scores[node][plugin] ?? "") }))))))));
    }
    if (!parts.length) parts.push(h("p", { class: "note", text: "The log has no more of this attempt." }));
    return parts;
  }
}

function outcome(each) {
  if (each.end === "chose") return `chose ${each.data.node}, of ${each.data.feasible} that fit`;
  if (each.end === "failed") return `failed: ${each.data.message || each.data.reason}`;
  return `skipped: ${each.data.reason}`;
}
