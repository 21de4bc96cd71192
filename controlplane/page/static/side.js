// Beside the views: the story of a violation, what a step did and what led to it, and what a search found.

import { counted, h, seconds } from "./dom.js";
import { search } from "./search.js";

const SHOWN = 300;
const CARDS = 8;
const LINES = 12;

export class Side {
  constructor(app) {
    this.app = app;
    this.query = h("input", { type: "search", id: "query", class: "query", placeholder: "Search events  (/)", "aria-label": "Search events", autocomplete: "off", spellcheck: "false" });
    this.tabs = new Map();
    this.bodies = new Map();
    const bar = h("div", { class: "side-tabs", role: "tablist", "aria-label": "Details" });
    this.body = h("div", { class: "side-body" });
    for (const [name, label] of [["story", "Story"], ["step", "Step"], ["found", "Found"]]) {
      const tab = h("button", { type: "button", role: "tab", id: `side-${name}`, "aria-controls": `side-${name}-body`, text: label });
      tab.addEventListener("click", () => {
        app.root.classList.toggle("folded", this.now === name && !app.root.classList.contains("folded"));
        this.open(name);
      });
      this.tabs.set(name, tab);
      this.bodies.set(name, h("div", { role: "tabpanel", id: `side-${name}-body`, "aria-labelledby": `side-${name}`, tabindex: "0", class: "side-page" }));
      bar.append(tab);
    }
    this.body.append(...this.bodies.values());
    this.kinds = h("select", { class: "pick", "aria-label": "Kind of event" });
    this.level = h("select", { class: "pick", "aria-label": "Level" }, [["", "any level"], ["debug", "debug up"], ["info", "info up"], ["warning", "warnings"], ["error", "errors"]].map(([value, text]) => h("option", { value, text })));
    this.element = h("aside", { class: "side", "aria-label": "Details" }, h("div", { class: "search-row" }, this.query, h("div", { class: "filters" }, this.kinds, this.level)), bar, this.body);
    for (const pick of [this.kinds, this.level]) pick.addEventListener("change", () => this.find());
    this.query.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(), 120);
    });
    this.query.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        clearTimeout(this.timer);
        this.find();
        app.hit(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        if (this.query.value) {
          this.query.value = "";
          this.find();
        } else {
          this.query.blur();
        }
      }
    });
    this.open("story");
  }

  // What kinds of events there are, with how many of each.
  fillKinds() {
    const { model } = this.app;
    const counts = new Map();
    for (let at = 0; at < model.count; at += 1) if (model.ev.level[at]) counts.set(model.ev.event[at], (counts.get(model.ev.event[at]) ?? 0) + 1);
    const before = this.kinds.value;
    const kinds = [...counts].map(([number, count]) => [model.text(number), count]).sort((a, b) => (a[0] < b[0] ? -1 : 1));
    this.kinds.replaceChildren(h("option", { value: "", text: "any event" }), ...kinds.map(([name, count]) => h("option", { value: name, text: `${name} (${count})` })));
    if (kinds.some(([name]) => name === before)) this.kinds.value = before;
  }

  open(name) {
    this.now = name;
    this.element.classList.toggle("found-open", name === "found");
    for (const [each, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(each === name));
      this.bodies.get(each).hidden = each !== name;
    }
  }

  stepLink(step, text = "") {
    const made = h("button", { type: "button", class: "link step-link", text: text || `step ${step}` });
    made.addEventListener("click", () => this.app.select(step));
    return made;
  }

  objectLink(obj) {
    const made = h("button", { type: "button", class: "link", text: obj, title: "Show the object" });
    made.addEventListener("click", () => this.app.showObject(obj));
    return made;
  }

  // ------------------------------------------------------------------ story

  showStory() {
    const { model } = this.app;
    const { findings, run } = model;
    const parts = [];
    const bad = findings.sentence;
    parts.push(h("p", { class: bad ? "sentence bad" : "sentence", text: bad || (run.verdict ? `${run.verdict}: ${run.reason}` : run.live ? "The cluster goes on." : "How the run ended is not known.") }));
    for (const each of model.lacks) parts.push(h("p", { class: "note", text: each }));
    if (!bad) parts.push(this.glance());
    const { main, others } = model.staleReads();
    if (main.length) {
      parts.push(h("h3", { text: main.length === 1 ? "The stale read that a write rests on" : `Stale reads that writes rest on (${main.length})` }));
      for (const each of main.slice(0, CARDS)) parts.push(this.staleCard(each));
      if (main.length > CARDS) parts.push(h("p", { class: "note", text: `and ${main.length - CARDS} more` }));
    }
    if (findings.entries) {
      parts.push(h("h3", { text: "What happened" }));
      const list = h("ol", { class: "entries" });
      for (const [step, actor, what] of findings.entries) {
        const [plain, tag, stale] = what.split(/ - (STALE|LATE): /);
        const entry = h("button", { type: "button", class: `entry${tag === "STALE" ? " is-stale" : ""}`, "data-step": step },
          h("span", { class: "entry-step", text: String(step) }),
          h("span", { class: "entry-what" }, h("span", { class: "who", text: `${actor} ` }), plain, stale ? h("span", { class: tag === "STALE" ? "stale-tag" : "late-tag", text: `${tag.toLowerCase()}: ${stale}` }) : null));
        entry.addEventListener("click", () => this.app.select(step));
        list.append(h("li", {}, entry));
      }
      parts.push(list);
    }
    if (others.length) {
      parts.push(h("h3", { text: `${main.length || bad ? "Other stale" : "Stale"} reads that writes rest on (${others.length})` }));
      for (const each of others.slice(0, LINES)) parts.push(this.staleLine(each));
      if (others.length > LINES) parts.push(h("p", { class: "note", text: `and ${others.length - LINES} more` }));
    }
    const unordered = findings.unordered ?? [];
    if (unordered.length) {
      parts.push(h("h3", { text: `Writes in no causal order (${unordered.length})` }));
      for (const each of unordered.slice(0, 12)) {
        parts.push(h("p", { class: "pair" }, this.objectLink(each.obj), ": ", this.stepLink(each.first.step), ` ${each.first.verb} by ${each.first.by}, then `,
          this.stepLink(each.second.step), ` ${each.second.verb} by ${each.second.by}, who had not heard of it (${each.second.code})`));
      }
      if (unordered.length > 12) parts.push(h("p", { class: "note", text: `and ${unordered.length - 12} more` }));
    }
    const deviations = model.choices.step.length;
    if (deviations) {
      parts.push(h("h3", { text: "The schedule" }), h("p", { text: `${counted(deviations, "choice")} of this run were not first in, first out; each is marked below its step.` }));
    }
    if (this.app.difference) parts.unshift(this.differenceCard());
    this.bodies.get("story").replaceChildren(...parts);
  }

  // The run in figures.
  glance() {
    const { model } = this.app;
    const last = model.step;
    const phases = new Map();
    for (const pod of model.pods(last)) phases.set(pod.phase, (phases.get(pod.phase) ?? 0) + 1);
    const facts = [
      ["events", model.count.toLocaleString("en")],
      ["steps", last.toLocaleString("en")],
      ["virtual time", seconds(model.stepTime[last])],
      ["actors", `${model.actors.filter((each) => each.steps).length}, ${counted(model.tasks.length, "task")}`],
      ["writes", model.writes.step.filter((step) => step > 0).length.toLocaleString("en")],
      ["pods at the end", [...phases].map(([phase, count]) => `${count} ${phase}`).join(", ")],
    ];
    return h("dl", { class: "glance" }, facts.filter(([, what]) => what).flatMap(([name, what]) => [h("dt", { text: name }), h("dd", { text: what })]));
  }

  staleLine(each) {
    return h("p", { class: "pair" }, this.stepLink(each.step), ` ${each.actor}/${each.task} read `, this.objectLink(each.obj), each.read === null ? " and found none" : ` at version ${each.read}`,
      each.overtaken_by > each.step ? `; overtaken by ${each.newest}` : `; the store had ${each.newest}`, each.overtaken_by ? (each.overtaken_by > each.step ? " at " : " since ") : "", each.overtaken_by ? this.stepLink(each.overtaken_by) : "", `. On it rests ${each.used}, `, this.stepLink(each.used_step));
  }

  staleCard(each) {
    return h("div", { class: "card stale-card" },
      h("p", {}, this.stepLink(each.step), ` ${each.actor}/${each.task} read `, this.objectLink(each.obj), each.read === null ? " and found none" : ` at version ${each.read}`),
      each.overtaken_by > each.step
        ? h("p", {}, "Overtaken before it was used: version ", String(each.newest), ", written at ", this.stepLink(each.overtaken_by))
        : h("p", {}, "The store had version ", String(each.newest), each.overtaken_by ? " since " : "", each.overtaken_by ? this.stepLink(each.overtaken_by) : "",
          each.other_incarnation ? ", another incarnation" : "", ` (${counted(each.behind, "write")} behind)`),
      this.incarnations(each),
      h("p", {}, "Based on it: ", each.used, " at ", this.stepLink(each.used_step)));
  }

  incarnations(each) {
    const found = this.app.model.mistaken(each);
    return found && h("p", {}, h("b", { text: "It was about another object of that name: " }), "what had been popped has uid ", h("code", { text: found.popped.slice(0, 8) }),
      found.uid ? ", what it read has " : ", and it found none", found.uid ? h("code", { text: found.uid.slice(0, 8) }) : "");
  }

  differenceCard() {
    const { difference } = this.app;
    const side = (each, at) => h("p", {}, h("b", { text: `${"AB"[at]}: ` }), each.step ? this.stepLink(each.step) : "it ends", each.step ? ` ${each.what}` : "");
    return h("div", { class: "card" },
      h("h3", { text: difference.same ? "The two runs are the same" : "Where the two runs part" }),
      difference.same ? null : h("p", { text: `${counted(difference.same_events, "event")} are the same.` }),
      difference.choice ? h("p", {}, h("b", { text: "First choice that differs: " }), difference.choice.what, " ", this.stepLink(difference.choice.step)) : null,
      ...(difference.sides ?? []).map(side),
      difference.decisions ? h("p", { text: "First decision that differs:" }) : null,
      ...(difference.decisions ?? []).map(side));
  }

  // ------------------------------------------------------------------ step

  showStep(step) {
    const { model } = this.app;
    const [first, last] = model.eventsOf(step);
    const parts = [
      h("h3", { text: `Step ${step}` }),
      h("p", { class: "step-head" }, h("b", { text: model.label(step) }), ` at ${seconds(model.stepTime[step] ?? 0)}`,
        model.stepPoint[step] ? h("span", { class: "dim", text: `, from point ${model.text(model.stepPoint[step])}` }) : ""),
    ];
    for (const at of model.chosenAt.get(step) ?? []) {
      const { choices } = model;
      parts.push(h("p", { class: "deviation", text: `Not first in, first out: of ${choices.n[at]} (${model.text(choices.kind[at])}) number ${choices.value[at] + 1} was taken, ${model.text(choices.label[at])}` }));
    }
    for (const each of model.findings.stale ?? []) if (each.step === step && (each.used || each.in_story)) parts.push(this.staleCard(each));
    const list = h("ul", { class: "events" });
    for (let at = first; at < last; at += 1) if (model.ev.level[at] || step === 0) list.append(this.eventItem(at));
    parts.push(list.children.length ? list : h("p", { class: "dim", text: "It says nothing of what it did." }));
    const chain = model.chain(step, 14).slice(1);
    if (chain.length) {
      parts.push(h("h3", { text: "What led here" }));
      const causes = h("ol", { class: "entries" });
      for (const hop of chain) {
        const entry = h("button", { type: "button", class: "entry", "data-step": hop.step },
          h("span", { class: "entry-step", text: String(hop.step) }),
          h("span", { class: "entry-what" }, h("span", { class: "who", text: `${hop.label} ` }), hop.said || model.text(model.stepPoint[hop.step])));
        entry.addEventListener("click", () => this.app.select(hop.step));
        causes.append(h("li", {}, entry));
      }
      parts.push(causes);
    }
    this.bodies.get("step").replaceChildren(...parts);
  }

  eventItem(at) {
    const { model } = this.app;
    const obj = model.text(model.ev.obj[at]);
    const data = model.data(at);
    const facts = [];
    if (obj) facts.push(h("dt", { text: "object" }), h("dd", {}, this.objectLink(obj)));
    if (model.ev.uid[at]) facts.push(h("dt", { text: "uid" }), h("dd", { class: "mono", text: model.text(model.ev.uid[at]) }));
    if (model.ev.rv[at]) {
      const write = model.writeOf(obj, model.ev.rv[at]);
      facts.push(h("dt", { text: "version" }), h("dd", {}, String(model.ev.rv[at]), write && write !== model.ev.step[at] ? [", written at ", this.stepLink(write)] : ""));
    }
    const cause = model.ev.cause[at];
    if (cause && cause !== model.ev.step[at]) facts.push(h("dt", { text: "cause" }), h("dd", {}, this.stepLink(cause)));
    for (const [name, value] of Object.entries(data)) {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      facts.push(h("dt", { text: name }), h("dd", { class: text.length > 60 ? "mono" : "", text: text.length > 1500 ? `${text.slice(0, 1500)}…` : text }));
    }
    return h("li", { class: `event level-${model.text(model.ev.level[at])}` },
      h("div", { class: "event-head" }, h("code", { text: model.text(model.ev.event[at]) }), h("span", { text: ` ${model.text(model.ev.said[at])}` })),
      facts.length ? h("dl", { class: "facts" }, facts) : null);
  }

  // ------------------------------------------------------------------ found

  // Search for something, as if it had been typed.
  ask(query) {
    this.query.value = query;
    this.find();
  }

  find() {
    const { app } = this;
    const { model } = app;
    const filters = [this.kinds.value && `event:${this.kinds.value}`, this.level.value && `level:${this.level.value}`].filter(Boolean);
    const found = search(model, [this.query.value, ...filters].join(" "));
    this.events = found.events;
    app.setHits(found.events);
    const page = this.bodies.get("found");
    if (!this.query.value.trim() && !filters.length) {
      page.replaceChildren(h("p", { class: "note", text: "Words that all stand in an event; actor:, event:, object: and level: look in one field. Enter goes to the next one." }));
      return;
    }
    const list = h("ol", { class: "entries" });
    for (const at of found.events.slice(0, SHOWN)) {
      const step = model.ev.step[at];
      const entry = h("button", { type: "button", class: "entry", "data-step": step },
        h("span", { class: "entry-step", text: String(step) }),
        h("span", { class: "entry-what" }, h("span", { class: "who", text: `${model.tasks[model.ev.task[at]].label} ` }), model.said(at)));
      entry.addEventListener("click", () => app.select(step, false));
      list.append(h("li", {}, entry));
    }
    page.replaceChildren(h("p", { class: "found-count", role: "status", text: counted(found.total, "event") + (found.total > SHOWN ? `, the first ${SHOWN} below` : "") }), list);
    this.open("found");
  }

  markCurrent(step) {
    for (const entry of this.body.querySelectorAll(".entry")) entry.classList.toggle("current", Number(entry.dataset.step) === step);
  }
}
