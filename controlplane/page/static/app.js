// The page: one run (or two) in several views, all at one step.
// `new App(document).open(source)` shows what a source gives; `live.js` may hang controls into `app.live`.

import { Charts } from "./charts.js";
import { ClusterView } from "./cluster.js";
import { Diagram } from "./diagram.js";
import { h } from "./dom.js";
import { Model } from "./model.js";
import { Results } from "./results.js";
import { Side } from "./side.js";
import { Timeline } from "./timeline.js";

const VIEWS = [["diagram", "Diagram"], ["cluster", "Cluster"], ["results", "Scheduling"], ["charts", "Charts"]];
const KEYS = [
  ["← →", "one step back, on"],
  ["shift ← →", "ten steps"],
  ["Home End", "first, last step"],
  ["space", "play, pause"],
  ["+ −", "closer, farther"],
  ["f", "the whole run"],
  ["1 2 3 4", "diagram, cluster, scheduling, charts"],
  ["/", "search"],
  ["n N", "next, previous that was found"],
  ["a", "axis: steps or virtual time"],
  ["t", "light or dark"],
  ["Esc", "let go of what is selected"],
  ["?", "this help"],
];
const NEAR_STEPS = 70;

export class App {
  constructor(page) {
    this.page = page;
    this.models = [];
    this.model = null;
    this.diagrams = [];
    this.step = 0;
    this.selected = 0;
    this.hits = [];
    this.difference = null;
    this.view = "diagram";
    this.dirty = false;
    this.listeners = [];
    this.root = page.getElementById("page");
    this.frame();
  }

  // Where live controls go: an element of the header that is empty and hidden until a page fills it.
  get live() {
    return this.liveRoom;
  }

  // `call(step)` whenever another step is looked at.
  onStep(call) {
    this.listeners.push(call);
  }

  frame() {
    this.title = h("h1", { class: "title" });
    this.verdict = h("span", { class: "verdict" });
    this.liveRoom = h("div", { class: "live", id: "live", hidden: true });
    this.runSwitch = h("div", { class: "switch", role: "group", "aria-label": "Run", hidden: true });
    this.axisButton = h("button", { type: "button", class: "quiet", id: "axis", title: "Axis: steps or virtual time (a)" });
    this.fitButton = h("button", { type: "button", class: "quiet", title: "Show the whole run (f)", text: "Fit" });
    this.themeButton = h("button", { type: "button", class: "icon", "aria-label": "Light or dark", title: "Light or dark (t)", text: "◐" });
    this.helpButton = h("button", { type: "button", class: "icon", "aria-label": "Help", title: "Help (?)", text: "?" });
    this.axisButton.addEventListener("click", () => this.toggleAxis());
    this.fitButton.addEventListener("click", () => this.fit());
    this.themeButton.addEventListener("click", () => this.toggleTheme());
    this.helpButton.addEventListener("click", () => this.help.showModal());
    const header = h("header", { class: "head" },
      h("div", { class: "naming" }, this.title, this.verdict), this.liveRoom, this.runSwitch,
      h("div", { class: "tools" }, this.axisButton, this.fitButton, this.themeButton, this.helpButton));
    this.tabs = new Map();
    this.rooms = new Map();
    const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "Views" });
    this.main = h("main", { class: "view" });
    for (const [name, label] of VIEWS) {
      const tab = h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `view-${name}`, text: label });
      tab.addEventListener("click", () => this.show(name));
      this.tabs.set(name, tab);
      this.rooms.set(name, h("section", { role: "tabpanel", tabindex: "0", id: `view-${name}`, "aria-labelledby": `tab-${name}`, class: `room room-${name}`, hidden: true }));
      bar.append(tab);
    }
    this.main.append(...this.rooms.values());
    this.side = new Side(this);
    this.timeline = new Timeline({
      go: (step) => this.go(step),
      by: (steps) => this.go(this.step + steps),
      play: () => this.togglePlay(),
      window: (value) => this.moveWindow(value),
    });
    this.help = h("dialog", { class: "help", "aria-label": "Help" },
      h("h2", { text: "Keys" }),
      h("dl", { class: "keys" }, KEYS.flatMap(([key, what]) => [h("dt", { text: key }), h("dd", { text: what })])),
      h("h2", { text: "Marks" }),
      h("ul", { class: "legend" }, [["write", "◆", "a write to the store"], ["refused", "✕", "refused, or a warning"], ["decision", "■", "a decision"], ["read", "○", "a read, or news heard of"],
        ["fault", "▲", "a fault, or an error"], ["stale", "◎", "what tells the violation; thick: a stale read that a write rests on, and the write that overtook it"],
        ["deviation", "⌣", "two writes in no causal order"], ["deviation", "^", "not first in, first out"], ["step", "●", "any other step"]]
        .map(([name, mark, what]) => h("li", {}, h("span", { class: `mark mark-${name}`, "aria-hidden": "true", text: mark }), what))),
      h("p", { text: "Drag to move, turn the wheel to zoom, click a mark to see what led there, click a lane's name to see its tasks." }),
      h("form", { method: "dialog" }, h("button", { class: "primary", text: "Close" })));
    this.root.replaceChildren(header, bar, this.main, this.side.element, this.timeline.element, this.help);
    this.page.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.changed()).observe(this.main);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    const kept = remembered("theme");
    if (kept) this.page.documentElement.dataset.theme = kept;
  }

  // ------------------------------------------------------------------ opening

  async open(source) {
    this.source = source;
    try {
      const parts = await source.load();
      this.difference = await source.difference();
      this.models = parts.map((part) => {
        const model = new Model();
        model.add(part);
        return model;
      });
    } catch (error) {
      this.fail(`This run cannot be shown: ${error.message}`);
      return;
    }
    this.model = this.models[0];
    const on = { changed: () => this.changed(), select: (step) => this.select(step), go: (step) => this.go(step) };
    const [first] = (this.diagrams = [new Diagram(this.model, on)]);
    for (const model of this.models.slice(1)) this.diagrams.push(new Diagram(model, on, first.axis.window));
    this.cluster = new ClusterView(this);
    this.results = new Results(this);
    this.charts = new Charts(this);
    this.rooms.get("diagram").replaceChildren(...this.diagrams.map((each, at) => this.models.length > 1
      ? h("div", { class: "half" }, h("p", { class: "half-name", text: `${"AB"[at]}: ${each.model.run.name}` }), each.element) : each.element));
    this.rooms.get("cluster").replaceChildren(this.cluster.element);
    this.rooms.get("results").replaceChildren(this.results.element);
    this.rooms.get("charts").replaceChildren(this.charts.element);
    this.rooms.get("diagram").classList.toggle("two", this.models.length > 1);
    this.showRuns();
    this.begin();
    requestAnimationFrame(() => requestAnimationFrame(() => {
      performance.mark("shown");
      this.page.body.dataset.ready = "yes";
    }));
  }

  begin() {
    this.headline();
    const { findings } = this.model;
    const axis = this.diagrams[0].axis;
    axis.width = Math.max(200, this.main.clientWidth - 150);
    this.show("diagram");
    this.side.fillKinds();
    this.side.find();
    const [stale] = this.model.staleReads().main;
    let at = this.model.step;
    if (this.difference?.step) {
      at = this.difference.step;
      for (const diagram of this.diagrams) diagram.mark = at;
      axis.around(at, NEAR_STEPS);
    } else if (findings.entries?.length) {
      const [first, last] = [findings.entries[0][0], findings.entries.at(-1)[0]];
      at = stale?.step ?? last;
      const from = stale?.overtaken_by ? Math.min(stale.overtaken_by, at) : at;
      axis.around(Math.round((from + at) / 2), Math.max(28, Math.min(NEAR_STEPS, Math.max((at - from) * 2.4, (last - first) * 0.4))));
    } else {
      axis.fit();
    }
    this.side.open("story");
    this.side.showStory();
    this.go(at);
  }

  // The run went on: take in what came.
  grow(part) {
    const { model } = this;
    const follows = this.step >= model.step;
    model.add(part);
    this.diagrams[0].refresh();
    this.charts.refresh();
    this.headline();
    this.side.showStory();
    if (follows) {
      const axis = this.diagrams[0].axis;
      const span = axis.to - axis.from;
      this.go(model.step);
      if (axis.value(model.step) > axis.to - span * 0.05) {
        axis.to = axis.value(model.step) + span * 0.2;
        axis.from = axis.to - span;
      }
    }
    this.changed();
  }

  headline() {
    const { run } = this.model;
    const seed = run.seed === undefined ? "" : `, seed ${run.seed}`;
    this.title.textContent = `${run.scenario ?? run.name ?? "run"}${seed}`;
    this.title.title = run.name ?? "";
    this.page.title = `${run.scenario ?? run.name ?? "run"} - controlplane`;
    const good = ["quiescent", "until", "stopped", undefined].includes(run.verdict);
    this.verdict.textContent = run.verdict ?? "running";
    this.verdict.title = run.reason ?? "";
    this.verdict.className = `verdict ${good ? "good" : "bad"}`;
  }

  showRuns() {
    this.runSwitch.hidden = this.models.length < 2;
    this.runSwitch.replaceChildren(...this.models.map((model, at) => {
      const button = h("button", { type: "button", "aria-pressed": String(model === this.model), text: "AB"[at], title: model.run.name });
      button.addEventListener("click", () => {
        this.model = model;
        this.showRuns();
        this.headline();
        this.charts.refresh(true);
        this.side.showStory();
        this.side.fillKinds();
        this.side.find();
        this.go(Math.min(this.step, model.step));
      });
      return button;
    }));
  }

  fail(words) {
    this.main.replaceChildren(h("p", { class: "failed", role: "alert", text: words }));
    this.page.body.dataset.ready = "failed";
  }

  // ------------------------------------------------------------------ moving

  show(name) {
    this.view = name;
    for (const [each, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(each === name));
      tab.tabIndex = each === name ? 0 : -1;
      this.rooms.get(each).hidden = each !== name;
    }
    this.changed();
  }

  get diagram() {
    return this.diagrams[this.models.indexOf(this.model)] ?? this.diagrams[0];
  }

  go(step) {
    this.step = Math.max(0, Math.min(this.model.stepTime.length - 1, step));
    this.diagrams[0].axis.reveal(this.step);
    for (const call of this.listeners) call(this.step);
    this.changed();
  }

  // Look at a step, and light up what led to it.
  select(step, open = true) {
    this.selected = step;
    const { diagram } = this;
    for (const each of this.diagrams) {
      each.selected = each === diagram ? step : 0;
      each.past = each === diagram ? this.model.past(step) : null;
    }
    this.side.showStep(step);
    if (open && this.side.now === "found") open = false;
    if (open) this.side.open("step");
    this.go(step);
    this.side.markCurrent(step);
  }

  letGo() {
    this.selected = 0;
    for (const each of this.diagrams) {
      each.selected = 0;
      each.past = null;
    }
    this.changed();
  }

  showObject(obj) {
    this.show("cluster");
    this.cluster.choose(obj);
    this.changed();
  }

  setHits(events) {
    this.hits = [...new Set(events.map((at) => this.model.ev.step[at]))];
    const { diagram } = this;
    diagram.hits = null;
    if (this.hits.length) {
      diagram.hits = new Uint8Array(this.model.stepTime.length);
      for (const step of this.hits) diagram.hits[step] = 1;
    }
    this.changed();
  }

  hit(by) {
    if (!this.hits.length) return;
    const at = by > 0 ? this.hits.find((step) => step > this.step) ?? this.hits[0] : this.hits.findLast((step) => step < this.step) ?? this.hits.at(-1);
    this.select(at, false);
  }

  toggleAxis() {
    const axis = this.diagrams[0].axis;
    axis.setMode(axis.mode === "steps" ? "time" : "steps", this.step);
    axis.reveal(this.step);
    this.changed();
  }

  fit() {
    this.diagrams[0].axis.fit();
    this.changed();
  }

  moveWindow(value) {
    const axis = this.diagrams[0].axis;
    const span = axis.to - axis.from;
    axis.from = value - span / 2;
    axis.to = axis.from + span;
    axis.keepInside();
    this.changed();
  }

  togglePlay() {
    this.playing = !this.playing;
    this.timeline.playing(this.playing);
    const tick = () => {
      if (!this.playing) return;
      if (this.step >= this.model.step) {
        this.togglePlay();
        return;
      }
      this.go(this.step + 1);
      setTimeout(() => requestAnimationFrame(tick), 80);
    };
    if (this.playing) tick();
  }

  toggleTheme() {
    const root = this.page.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    remember("theme", root.dataset.theme);
    this.repaint();
  }

  repaint() {
    this.charts?.repaint();
    this.changed();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input:not([type=range]), textarea, select, dialog");
    if (typing || !this.model) return;
    const onTab = event.target.closest?.('[role="tab"]');
    const many = event.shiftKey ? 10 : 1;
    const axis = this.diagrams[0].axis;
    const keys = {
      ArrowLeft: () => (onTab ? this.nextTab(onTab, -1) : this.go(this.step - many)),
      ArrowRight: () => (onTab ? this.nextTab(onTab, 1) : this.go(this.step + many)),
      Home: () => this.go(0),
      End: () => this.go(this.model.step),
      "/": () => this.side.query.focus(),
      "?": () => this.help.showModal(),
      n: () => this.hit(1),
      N: () => this.hit(-1),
      "+": () => this.zoom(0.7),
      "=": () => this.zoom(0.7),
      "-": () => this.zoom(1.4),
      f: () => this.fit(),
      a: () => this.toggleAxis(),
      t: () => this.toggleTheme(),
      Escape: () => this.letGo(),
      Enter: event.target.classList?.contains("diagram-canvas") ? () => this.select(this.step) : null,
      " ": event.target.closest?.("button") ? null : () => this.togglePlay(),
    };
    VIEWS.forEach(([name], at) => { keys[String(at + 1)] = () => this.show(name); });
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    axis.reveal(this.step);
  }

  nextTab(tab, by) {
    const all = [...tab.parentElement.querySelectorAll('[role="tab"]')];
    const next = all[(all.indexOf(tab) + by + all.length) % all.length];
    next.focus();
    next.click();
  }

  zoom(factor) {
    const axis = this.diagrams[0].axis;
    axis.zoom(factor, Math.max(0, Math.min(axis.width, axis.x(this.step))));
    this.changed();
  }

  // ------------------------------------------------------------------ drawing

  // Something is to be drawn anew, at the next frame.
  changed() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.draw();
    });
  }

  draw() {
    if (!this.diagrams.length) return;
    const { axis } = this.diagrams[0];
    for (const each of this.diagrams) each.step = Math.min(this.step, each.model.step);
    if (this.view === "diagram") for (const each of this.diagrams) each.draw();
    else if (this.view === "cluster") this.cluster.draw(this.step);
    else if (this.view === "results") this.results.draw(this.step);
    else this.charts.draw(this.step);
    this.timeline.show(this.model, axis, this.step, this.diagram.hits, this.diagram.mark);
    this.axisButton.textContent = axis.mode === "steps" ? "Axis: steps" : "Axis: time";
  }
}

function remembered(name) {
  try {
    return localStorage.getItem(`controlplane.${name}`);
  } catch {
    return null; // a page that is a file may have no storage
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`controlplane.${name}`, value);
  } catch {
    // it is asked again next time
  }
}
