// What a live page has besides a recorded one: control over time, objects, forks, and the recording.
//
// Hung into a page that shows a session; while a fork is compared, the session is not asked for news.

import { h } from "./dom.js";
import { Server, tokenOf } from "./api.js";
import { HttpSource } from "./source.js";
import { FIRST, kindsOf, template } from "./templates.js";
import { yamlLines } from "./yaml.js";

const EVERY_MS = 500;
const HIDDEN_MS = 5000;
const SHOWN_MS = 8000;
const SPEEDS = ["0.1", "1", "10", "60", "600", "max"];
const STEPS = [["1 s", 1], ["10 s", 10], ["1 min", 60], ["5 min", 300]];
const STRATEGIES = ["random-walk", "fifo", "pct", "pos", "portfolio"];
const LIVE_KEYS = [["p", "pause, resume the cluster"], ["c", "create objects"], ["e", "edit the object"], ["b", "branch off: fork"]];
function labelled(text, control) {
  return h("label", { class: "field" }, h("span", { text }), control);
}

function button(text, call, options = {}) {
  return h("button", { type: "button", text, on: { click: call }, ...options });
}

function option(value, text = value) {
  return h("option", { value, text });
}

export class Live {
  constructor(app, server, source) {
    this.app = app;
    this.server = server;
    this.source = source;
    this.comparing = false;
    this.status = h("output", { class: "live-status", "aria-live": "polite" });
    this.pause = button("Pause", () => this.toggle(), { title: "Pause or resume virtual time (p)", class: "pausing" });
    this.speed = h("select", { "aria-label": "Speed of virtual time", on: { change: () => this.setSpeed() } },
      SPEEDS.map((each) => option(each, each === "max" ? each : `${each}×`)));
    this.step = h("select", { "aria-label": "Let virtual time go on by", on: { change: () => this.stepBy() } },
      option("", "Step …"), STEPS.map(([text, s]) => option(String(s), text)));
    this.back = button("Back to the cluster", () => this.resume(), { hidden: true, class: "main" });
    this.session = [this.pause, this.step, this.speed,
      button("New", () => this.create(), { title: "Create objects (c)" }),
      button("Edit", () => this.edit(), { title: "Edit the object that is looked at (e)" }),
      button("Delete", () => this.remove(), { title: "Delete the object that is looked at" }),
      button("All", () => this.all(), { title: "Export, restore or reset all objects" }),
      button("Scheduler", () => this.scheduler(), { title: "Show the scheduler's configuration" }),
      button("Fork", () => this.fork(), { title: "Go on otherwise from the step that is looked at (b)" }),
      button("Recording", () => this.download(), { title: "Download run.rec of the session up to now" })];
    const room = app.live;
    room.setAttribute("role", "toolbar");
    room.setAttribute("aria-label", "Live cluster");
    room.hidden = false;
    room.replaceChildren(...this.session, this.back);
    app.root.append(this.status);
    document.addEventListener("keydown", (event) => this.key(event));
    app.help.querySelector(".keys").append(
      ...LIVE_KEYS.flatMap(([key, what]) => [h("dt", { text: key }), h("dd", { text: what })]));
    this.dialog = h("dialog", { class: "sheet" });
    document.body.append(this.dialog);
    this.failures = 0;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.comparing || this.dialog.open) return;
    if (event.target.closest?.("input, textarea, select, dialog")) return;
    const act = { p: this.toggle, c: this.create, e: this.edit, b: this.fork }[event.key];
    if (!act) return;
    event.preventDefault();
    act.call(this);
  }

  // A notice above the views for a while; an error stays until the next notice.
  say(text, bad = false) {
    this.status.textContent = text;
    this.status.classList.toggle("bad", bad);
    clearTimeout(this.silence);
    if (!bad) this.silence = setTimeout(() => { this.status.textContent = ""; }, SHOWN_MS);
  }

  // Do something with the server, and say in its words what it refused.
  async doing(work, done = "") {
    try {
      const found = await work();
      if (done) this.say(done);
      return found;
    } catch (error) {
      this.say(error.message, true);
      return undefined;
    }
  }

  // ---- what goes on

  async begin() {
    await this.doing(async () => this.shown(await this.server.time()));
    this.wait();
  }

  wait() {
    setTimeout(() => this.look(), document.hidden ? HIDDEN_MS : EVERY_MS * Math.min(2 ** this.failures, 16));
  }

  async look() {
    if (this.comparing) return;
    try {
      for (let more = true; more;) {
        const { model } = this.app;
        const news = await this.source.more(model.step, model.texts.length, model.tasks.length);
        if (this.comparing) return;
        if (news.step > model.step) this.app.grow(news);
        ({ more } = news);
      }
      this.shown(await this.server.time());
      if (this.failures) this.say("");
      this.failures = 0;
    } catch (error) {
      this.failures = Math.min(this.failures + 1, 5);
      this.say(`no answer: ${error.message}`, true);
    }
    this.wait();
  }

  shown(state) {
    this.time = state;
    this.pause.textContent = state.paused ? "Resume" : "Pause";
    this.pause.setAttribute("aria-pressed", String(state.paused));
    const speed = String(state.speed);
    if (![...this.speed.options].some((each) => each.value === speed)) this.speed.append(option(speed, `${speed}×`));
    if (document.activeElement !== this.speed) this.speed.value = speed;
  }

  async change(action) {
    const state = await this.doing(() => this.server.setTime(action));
    if (state) this.shown(state);
  }

  toggle() {
    return this.change({ action: this.time?.paused ? "resume" : "pause" });
  }

  setSpeed() {
    const value = this.speed.value;
    return this.change({ action: "speed", speed: value === "max" ? value : Number(value) });
  }

  async stepBy() {
    const by = Number(this.step.value);
    this.step.value = "";
    if (!by) return;
    if (!this.time?.paused) await this.change({ action: "pause" });
    await this.change({ action: "step", seconds: by });
  }

  // ---- objects

  show(title, ...parts) {
    this.dialog.replaceChildren(h("form", { method: "dialog" }, h("h2", { text: title }), ...parts.filter(Boolean)));
    if (!this.dialog.open) this.dialog.showModal();
  }

  // A text of objects, to be sent; what was refused is said below it, and nothing is closed.
  // `above` makes the controls above the text, given the area.
  text(title, text, act, above = () => null) {
    const area = h("textarea", { rows: 22, spellcheck: "false", "aria-label": "YAML or JSON" });
    area.value = text;
    const told = h("output", { class: "refusal", role: "alert" });
    const send = button(act, async () => {
      send.disabled = true;
      try {
        for (const tree of await this.server.parsed(area.value)) {
          const made = await this.server.put(tree);
          told.textContent = "";
          this.say(`${made.kind} ${made.metadata.name}: version ${made.metadata.resourceVersion}`);
        }
        this.dialog.close();
      } catch (error) {
        told.textContent = error.message;
      }
      send.disabled = false;
    }, { class: "main" });
    this.show(title, above(area), area, told, h("div", { class: "buttons" }, button("Cancel", () => this.dialog.close()), send));
    area.focus();
  }

  // New objects, from a template for each kind that the cluster serves.
  async create() {
    const served = await this.doing(() => this.server.discovered());
    if (!served) return;
    const kinds = h("select", {}, kindsOf(served).map((each) => option(each)));
    this.text("Create or change objects", template(FIRST, served), "Apply", (area) => {
      kinds.addEventListener("change", () => { area.value = template(kinds.value, served); });
      return labelled("template", kinds);
    });
  }

  // The scheduler's configuration, with all defaults.
  async scheduler() {
    const text = await this.doing(() => this.server.schedulerConfiguration());
    if (text === undefined) return;
    this.show("Scheduler's configuration",
      h("p", { text: "It is fixed for a session: begin another with controlplane serve --scheduler-config FILE to change it." }),
      h("pre", { text, tabindex: "0", "aria-label": "KubeSchedulerConfiguration" }),
      h("div", { class: "buttons" }, button("Download", () => leave(new Blob([text]), "scheduler-config.yaml")),
        button("Close", () => this.dialog.close(), { class: "main" })));
  }

  selected() {
    const { cluster, model, step } = this.app;
    const tree = model.byObj.get(cluster.chosen)?.at(step);
    if (!tree) this.say("choose an object in the cluster view first", true);
    return tree;
  }

  async edit() {
    const tree = this.selected();
    if (!tree) return;
    const now = await this.doing(() => this.server.get(tree));
    if (!now) return;
    delete now.metadata.managedFields;
    this.text(`Edit ${now.kind} ${now.metadata.name}`, yamlLines(now).join("\n"), "Save");
  }

  remove() {
    const tree = this.selected();
    if (!tree) return;
    const { name, namespace } = tree.metadata;
    this.show(`Delete ${tree.kind} ${namespace ? `${namespace}/` : ""}${name}?`,
      h("div", { class: "buttons" },
        button("Cancel", () => this.dialog.close()),
        button("Delete", async () => {
          this.dialog.close();
          await this.doing(() => this.server.remove(tree), `${tree.kind} ${name}: deletion asked for`);
        }, { class: "main danger" })));
  }

  // Export of all objects, restore of such a file, and reset.
  all() {
    const file = h("input", { type: "file", accept: ".yaml,.yml,.json", "aria-label": "File to restore" });
    const doing = (work) => {
      this.dialog.close();
      return this.doing(async () => this.say(outcome(await work())));
    };
    this.show("All objects",
      h("p", { text: "Export writes all objects as YAML, Secrets included. Restore creates or replaces those of a file. " +
        "Reset brings back what the session began with, and deletes all else." }),
      h("p", {}, file),
      h("div", { class: "buttons" },
        button("Cancel", () => this.dialog.close()),
        button("Export", () => {
          this.dialog.close();
          return this.doing(async () => leave(await this.server.exported(), "objects.yaml"), "objects.yaml: all objects");
        }),
        button("Restore", async () => {
          if (!file.files.length) return;
          const text = await file.files[0].text();
          await doing(() => this.server.restore(text));
        }),
        button("Reset", () => doing(() => this.server.reset()), { class: "main danger" })));
  }

  // ---- forks

  fork() {
    const step = h("input", { type: "number", min: 0, value: this.app.step });
    const seed = h("input", { type: "number", value: 1 });
    const strategy = h("select", {}, STRATEGIES.map((each) => option(each)));
    const secs = h("input", { type: "number", min: 0, value: 60 });
    const area = h("textarea", { rows: 8, spellcheck: "false" });
    const told = h("output", { class: "refusal", role: "alert" });
    const begin = button("Fork", async () => {
      try {
        const made = await this.server.fork({
          step: Number(step.value), seed: Number(seed.value), strategy: strategy.value, seconds: Number(secs.value),
          ...(area.value.trim() ? { add: area.value } : {}),
        });
        this.dialog.close();
        await this.compare(made.id);
      } catch (error) {
        told.textContent = error.message;
      }
    }, { class: "main" });
    this.show("Go on otherwise",
      h("p", { text: "All up to the step is repeated in a process of its own; from there on another schedule decides, and what is written below is applied. The session goes on untouched." }),
      h("div", { class: "fields" }, labelled("after step", step), labelled("strategy", strategy), labelled("seed", seed),
        labelled("virtual seconds", secs)),
      labelled("objects to apply (YAML)", area), told,
      h("div", { class: "buttons" }, button("Cancel", () => this.dialog.close()), begin));
  }

  // Wait for a fork, and show it beside the session.
  async compare(id) {
    for (;;) {
      const fork = (await this.server.forks()).find((each) => each.id === id);
      if (!fork) return;
      if (fork.state === "done") {
        await this.beside(await this.server.forked(id), fork);
        return;
      }
      if (fork.state === "failed") {
        this.say(`fork ${id}: ${fork.message}`, true);
        return;
      }
      this.say(`fork ${id} is under way …`);
      await new Promise((over) => setTimeout(over, EVERY_MS));
    }
  }

  // Show two recorded runs, the session's and the fork's; the session goes on unseen.
  async beside({ runs, difference }, fork) {
    const names = ["the session", `fork ${fork.id}, from step ${fork.step}, ${fork.strategy}, seed ${fork.seed}`];
    runs.forEach((each, at) => { each.run.name = names[at]; }); // in place of files that only the server has
    this.comparing = true;
    for (const each of this.session) each.hidden = true;
    this.back.hidden = false;
    await this.app.open({ live: false, load: async () => runs, difference: async () => difference });
    this.say(`fork ${fork.id}: ${fork.message}`);
  }

  async resume() {
    this.comparing = false;
    for (const each of this.session) each.hidden = false;
    this.back.hidden = true;
    this.say("");
    await this.app.open(this.source);
    this.wait();
  }

  async download() {
    await this.doing(async () => leave(await this.server.recording(), "run.rec"),
      "run.rec: controlplane replay run.rec repeats the session");
  }
}

// Let the browser keep a file.
function leave(blob, name) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// What a restore or a reset did, in a line.
function outcome({ errors, ...counts }) {
  const done = Object.entries(counts).filter(([, count]) => count).map(([what, count]) => `${count} ${what}`);
  return [done.join(", ") || "nothing to be done", ...errors].join("; ");
}

// Show the session of the server that the page came from; without a token that it takes, ask for one.
export async function openLive(app) {
  addEventListener("hashchange", () => { if (location.hash) location.reload(); }); // the address was opened again
  const server = new Server(tokenOf(location, history, sessionStorage));
  try {
    await server.time();
  } catch (error) {
    if (error.code !== 401 && error.code !== 403) app.fail(error.message);
    else askForToken(error.message);
    return;
  }
  const source = new HttpSource("model", server.headers);
  await app.open(source);
  if (app.model) await new Live(app, server, source).begin();
}

function askForToken(said) {
  const token = h("input", { type: "password", autocomplete: "off", required: true });
  const form = h("form", { class: "sheet token" }, h("h2", { text: "This cluster asks for a token" }), h("p", { class: "refusal", text: said }),
    h("p", { text: "It stands in the address that controlplane serve printed, and in the kubeconfig." }),
    labelled("token", token), h("button", { class: "main", text: "Look" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#token=${encodeURIComponent(token.value)}`;
    location.reload();
  });
  document.getElementById("page").replaceChildren(form);
  token.focus();
}
