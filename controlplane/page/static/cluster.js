// The cluster at a step: nodes with pods and what is free, queues, pending pods, watch caches, objects.

import { counted, h, seconds, size, wide } from "./dom.js";
import { lastNotAbove, PLACES, takesRoom } from "./model.js";
import { quotaView } from "./quota.js";
import { lineDiff, yamlLines } from "./yaml.js";

const NODES = 40;
const CHIPS = 60;
const LISTED = 250;
const ORDER = ["Pod", "Node", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "Event", "Lease"];

export class ClusterView {
  constructor(app) {
    this.app = app;
    this.nodes = h("div", { class: "nodes" });
    this.quota = h("div", { class: "quota" });
    this.quotaSection = h("section", { hidden: true }, h("h3", { text: "Quota of cohorts and ClusterQueues" }), this.quota);
    this.queues = h("div", { class: "queues" });
    this.pending = h("div", { class: "pending" });
    this.caches = h("div", { class: "caches" });
    this.news = h("div", { class: "news" });
    this.kind = h("select", { class: "pick", "aria-label": "Kind of objects" });
    this.filter = h("input", { type: "search", class: "query", placeholder: "Filter by name", "aria-label": "Filter objects by name", spellcheck: "false" });
    this.names = h("ul", { class: "names" });
    this.text = h("div", { class: "yaml", tabindex: "0", role: "region", "aria-label": "The object" });
    this.head = h("div", { class: "object-head" });
    this.mode = "diff";
    this.managed = false; // whether managedFields are shown
    this.chosen = "";
    this.picked = false; // until a kind is picked: the first one, or pods once there are any
    this.kind.addEventListener("change", () => {
      this.picked = true;
      this.redraw();
    });
    this.filter.addEventListener("input", () => this.redraw());
    this.lacking = h("p", { class: "note", hidden: true });
    this.element = h("div", { class: "cluster" },
      h("div", { class: "cluster-left" }, this.lacking,
        h("section", {}, h("h3", { text: "Nodes" }), this.nodes),
        this.quotaSection,
        h("section", {}, h("h3", { text: "Scheduler's queues" }), this.queues),
        h("section", {}, h("h3", { text: "Pending pods by reason" }), this.pending),
        h("section", {}, h("h3", { text: "Watch caches" }), this.caches),
        h("section", {}, h("h3", { text: "News on its way to informers" }), this.news)),
      h("section", { class: "objects", "aria-label": "Objects" },
        h("div", { class: "object-pick" }, this.kind, this.filter), this.names, this.head, this.text));
  }

  redraw() {
    this.seen = "";
    this.app.changed();
  }

  choose(obj) {
    this.chosen = obj;
    const kind = obj.split("/")[0];
    if (this.app.model.byKind.has(kind)) {
      this.fillKinds();
      this.kind.value = kind;
      this.picked = true;
    }
    this.filter.value = "";
    this.seen = "";
  }

  fillKinds() {
    const { model } = this.app;
    if (this.kinds === model.byKind.size && this.of === model) return;
    this.kinds = model.byKind.size;
    this.of = model;
    const before = this.kind.value;
    const rank = (kind) => (ORDER.includes(kind) ? ORDER.indexOf(kind) : ORDER.length);
    const kinds = [...model.byKind.keys()].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
    this.kind.replaceChildren(...kinds.map((kind) => h("option", { value: kind, text: kind })));
    this.kind.value = this.picked && kinds.includes(before) ? before : kinds[0] ?? "";
  }

  draw(step) {
    const { model } = this.app;
    this.lacking.hidden = model.things.size > 0;
    this.lacking.textContent = model.lacks.join(" ") || "Nothing is stored.";
    const name = `${step} ${model.revision} ${model.run.name} ${this.chosen} ${this.mode} ${this.managed}`;
    if (name === this.seen) return;
    this.seen = name;
    this.fillKinds();
    const pods = model.pods(step);
    this.drawNodes(step, pods);
    const quota = quotaView(this.app, step);
    this.quotaSection.hidden = quota.length === 0;
    this.quota.replaceChildren(...quota);
    this.drawQueues(step);
    this.drawPending(step, pods);
    this.drawCaches(step);
    this.drawNews(step);
    this.drawObjects(step);
  }

  // ------------------------------------------------------------------ nodes

  drawNodes(step, pods) {
    const { model } = this.app;
    const on = new Map();
    for (const pod of pods) {
      if (!pod.node) continue;
      if (!on.has(pod.node)) on.set(pod.node, []);
      on.get(pod.node).push(pod);
    }
    const nodes = model.nodes(step);
    const cpus = model.cpusAt(step);
    const devices = model.devicesAt(step);
    const cards = nodes.slice(0, NODES).map((node) => this.nodeCard(node, on.get(node.thing.name) ?? [], cpus.get(node.thing.name), pods, devices.get(node.thing.name)));
    if (devices.has("")) cards.push(h("div", { class: "node" }, h("div", { class: "node-head" }, h("b", { text: "Devices of several nodes" })), this.deviceChips(devices.get(""))));
    if (nodes.length > NODES) cards.push(h("p", { class: "note", text: `and ${counted(nodes.length - NODES, "node")} more; objects of kind Node list all` }));
    if (!nodes.length) cards.push(h("p", { class: "note", text: "No nodes at this step." }));
    this.nodes.replaceChildren(...cards);
  }

  nodeCard(node, pods, cpus, all, devices) {
    const asked = pods.filter(takesRoom);
    const sum = (name) => asked.reduce((total, pod) => total + pod[name], 0);
    const trouble = node.ready && node.ready !== "True" ? `not ready (${node.ready})` : node.unschedulable ? "unschedulable" : "";
    return h("div", { class: "node" },
      h("div", { class: "node-head" }, this.objectLink(node.thing.obj, node.thing.name), trouble ? h("span", { class: "trouble", text: trouble }) : null,
        h("span", { class: "dim", text: `${asked.length}${node.pods ? ` of ${node.pods}` : ""} pods` })),
      bar("cpu", sum("cpu"), node.cpu, (value) => String(Number(value.toFixed(2)))),
      bar("memory", sum("memory"), node.memory, size),
      node.taints.length ? h("p", { class: "note", text: node.taints.join(", ") }) : null,
      h("div", { class: "chips" }, pods.slice(0, CHIPS).map((pod) => this.chip(pod)), pods.length > CHIPS ? h("span", { class: "dim", text: `+${pods.length - CHIPS}` }) : null),
      devices ? this.deviceChips(devices) : null,
      cpus ? numaMap(cpus, all) : null);
  }

  // Devices by driver and pool, each with the claims and pods that hold it; a click shows the claim.
  deviceChips(devices) {
    const pools = new Map();
    for (const each of devices) {
      const pool = `${each.driver}, pool ${each.pool}`;
      if (!pools.has(pool)) pools.set(pool, []);
      pools.get(pool).push(each);
    }
    return h("div", { class: "devices" }, [...pools].map(([pool, own]) => {
      const held = own.filter((each) => each.holders.length);
      return h("div", {},
        h("p", { class: "note", text: `${pool}: ${held.length} of ${counted(own.length, "device")} allocated` }),
        h("div", { class: "chips" }, own.slice(0, CHIPS).map((each) => this.deviceChip(each)), own.length > CHIPS ? h("span", { class: "dim", text: `+${own.length - CHIPS}` }) : null));
    }));
  }

  deviceChip({ device, holders }) {
    if (!holders.length) return h("span", { class: "chip dim", title: `${device}: free`, text: device });
    const told = holders.map(({ thing, pods }) => `${thing.name}${pods.length ? ` (${pods.join(", ")})` : ", not reserved"}`).join("; ");
    const pods = holders.flatMap((each) => each.pods);
    const made = h("button", { type: "button", class: "chip is-running", title: `${device}: ${told}`, text: `${device}: ${pods.join(", ") || holders[0].thing.name}` });
    made.addEventListener("click", () => this.app.showObject(holders[0].thing.obj));
    return made;
  }

  chip(pod) {
    const state = pod.terminating ? "terminating" : pod.phase === "Running" && !pod.ready ? "unready" : pod.phase.toLowerCase();
    const made = h("button", { type: "button", class: `chip is-${state}`, title: `${pod.thing.name}: ${pod.phase}${pod.ready ? ", ready" : ""}${pod.terminating ? ", terminating" : ""}`, text: pod.thing.name.split("/").at(-1) });
    made.addEventListener("click", () => this.app.showObject(pod.thing.obj));
    return made;
  }

  objectLink(obj, text = obj) {
    const made = h("button", { type: "button", class: "link", text });
    made.addEventListener("click", () => this.app.showObject(obj));
    return made;
  }

  // ------------------------------------------------------------------ scheduler

  drawQueues(step) {
    const { model } = this.app;
    const places = model.queuesAt(step);
    this.queues.replaceChildren(...PLACES.map((place) => {
      const waiting = places.get(place) ?? [];
      return h("div", { class: "queue" },
        h("div", { class: "queue-head" }, h("b", { text: place }), h("span", { class: "count", text: String(waiting.length) })),
        h("ul", {}, waiting.slice(0, 12).map((each) => h("li", {}, each.obj ? this.objectLink(each.obj, each.obj.replace("Pod/", "")) : h("span", { class: "mono", text: each.uid.slice(0, 8) }),
          h("span", { class: "dim", text: [each.attempts ? `attempt ${each.attempts}` : "", each.until ? `until ${seconds(each.until)}` : "", each.plugins, `since step ${each.since}`].filter(Boolean).join(", ") }))),
        waiting.length > 12 ? h("li", { class: "dim", text: `and ${waiting.length - 12} more` }) : null));
    }));
  }

  drawPending(step, pods) {
    const reasons = new Map();
    for (const pod of pods) {
      if (pod.node || pod.phase !== "Pending") continue;
      const reason = pod.reason ? `${pod.reason}: ${pod.message}` : "not tried yet";
      if (!reasons.has(reason)) reasons.set(reason, []);
      reasons.get(reason).push(pod);
    }
    const groups = [...reasons].sort((a, b) => b[1].length - a[1].length);
    this.pending.replaceChildren(...groups.map(([reason, waiting]) => h("div", { class: "reason" },
      h("p", {}, h("span", { class: "count", text: String(waiting.length) }), ` ${reason}`),
      h("div", { class: "chips" }, waiting.slice(0, CHIPS).map((pod) => this.chip(pod)), waiting.length > CHIPS ? h("span", { class: "dim", text: `+${waiting.length - CHIPS}` }) : null))),
    groups.length ? "" : h("p", { class: "note", text: "No pod waits for a node at this step." }));
  }

  drawCaches(step) {
    const { model } = this.app;
    const caches = model.cachesAt(step);
    const behind = caches.filter((each) => each.behind);
    if (!caches.length) {
      this.caches.replaceChildren(h("p", { class: "note", text: "No watch cache at this step." }));
      return;
    }
    const rows = (behind.length ? behind : []).map((each) => h("tr", { class: "is-behind" }, h("td", { text: each.server }), h("td", { text: each.resource }),
      h("td", { class: "number", text: each.behind < 0 ? "beyond what is kept" : `${each.behind}` }), h("td", { class: "number", text: String(each.rv) })));
    this.caches.replaceChildren(
      h("p", { text: behind.length ? `${behind.length} of ${caches.length} are behind the store` : `All ${caches.length} have what the store has.` }),
      rows.length ? h("table", { class: "grid" }, h("thead", {}, h("tr", {}, ["Server", "Resource", "Writes behind", "At version"].map((text) => h("th", { scope: "col", text })))), h("tbody", {}, rows)) : "");
  }

  // Versions that were written by this step, and that a handler is told of in a later one.
  drawNews(step) {
    const late = this.app.model.newsAt(step).filter((each) => each.coming).sort((a, b) => b.coming - a.coming);
    const rows = late.slice(0, CHIPS).map((each) => h("tr", {}, h("td", { text: each.task }), h("td", { text: each.kind }), h("td", { class: "number", text: String(each.coming) }),
      h("td", { class: "number", text: each.step ? `version ${each.rv}, step ${each.step}` : "nothing yet" })));
    this.news.replaceChildren(rows.length
      ? wide("News on its way", h("table", { class: "grid" }, h("thead", {}, h("tr", {}, ["Who", "Kind", "On the way", "Told last of"].map((text) => h("th", { scope: "col", text })))), h("tbody", {}, rows)))
      : h("p", { class: "note", text: "Every handler has been told of all that it will hear of what is written by now." }),
    late.length > CHIPS ? h("p", { class: "note", text: `and ${late.length - CHIPS} more` }) : "");
  }

  // ------------------------------------------------------------------ objects

  drawObjects(step) {
    const { model } = this.app;
    const kind = this.kind.value;
    const word = this.filter.value.trim().toLowerCase();
    const alive = model.alive(kind, step).filter(([thing]) => thing.name.toLowerCase().includes(word));
    this.names.replaceChildren(...alive.slice(0, LISTED).map(([thing, index]) => {
      const now = thing.steps[index] === step;
      const made = h("button", { type: "button", class: `name${thing.obj === this.chosen ? " current" : ""}`, "aria-current": thing.obj === this.chosen ? "true" : undefined },
        h("span", { text: thing.name }), h("span", { class: "dim", text: now ? "written at this step" : `v${thing.rvs[index]}` }));
      made.addEventListener("click", () => {
        this.chosen = thing.obj;
        this.redraw();
      });
      return h("li", {}, made);
    }), alive.length > LISTED ? h("li", { class: "dim", text: `and ${alive.length - LISTED} more; filter them` }) : "");
    if (!alive.length) this.names.replaceChildren(h("li", { class: "note", text: kind ? `No ${kind} at this step.` : "No objects are known." }));
    this.drawObject(step);
  }

  // Who read and wrote an object, marked in the diagram.
  inDiagram(thing) {
    const made = h("button", { type: "button", class: "quiet", text: "Diagram", title: "Mark who read and wrote it" });
    made.addEventListener("click", () => {
      this.app.side.ask(`object:${thing.obj}`);
      this.app.show("diagram");
    });
    return made;
  }

  drawObject(step) {
    const { model } = this.app;
    const written = lastNotAbove(model.writes.step, step);
    const thing = model.byObj.get(this.chosen) ?? model.writes.thing[written];
    if (!thing) {
      this.head.replaceChildren(h("p", { class: "note", text: "Nothing has been written yet." }));
      this.text.replaceChildren();
      return;
    }
    const index = thing.indexAt(step);
    const tree = thing.tree(index);
    const before = thing.tree(index - 1);
    const goTo = (text, at) => {
      const made = h("button", { type: "button", class: "quiet", text, disabled: at < 0 || at >= thing.steps.length });
      made.addEventListener("click", () => this.app.go(thing.steps[at]));
      return made;
    };
    const modes = [["diff", "Difference"], ["yaml", "YAML"]].map(([mode, text]) => {
      const made = h("button", { type: "button", "aria-pressed": String(this.mode === mode), text });
      made.addEventListener("click", () => {
        this.mode = mode;
        this.redraw();
      });
      return made;
    });
    const managers = h("button", { type: "button", class: "quiet", "aria-pressed": String(this.managed), text: "managedFields", title: "Show or leave out metadata.managedFields",
      hidden: !tree?.metadata?.managedFields && !before?.metadata?.managedFields });
    managers.addEventListener("click", () => {
      this.managed = !this.managed;
      this.redraw();
    });
    this.head.replaceChildren(
      h("div", { class: "object-title" }, h("b", { text: thing.obj }), this.chosen ? null : h("span", { class: "dim", text: ", written last" }), h("span", { class: "dim", text: index < 0 ? ", not there yet" : `, version ${thing.rvs[index]} (${index + 1} of ${thing.steps.length}), written at step ${thing.steps[index]}` })),
      h("div", { class: "object-tools" }, h("div", { class: "switch", role: "group", "aria-label": "How to show it" }, modes), managers, goTo("‹ older", index - 1), goTo("newer ›", index + 1), this.inDiagram(thing)));
    if (index < 0) {
      this.text.replaceChildren(h("p", { class: "note", text: `It is written first at step ${thing.steps[0]}.` }));
      return;
    }
    const lines = tree === null ? [] : yamlLines(this.managed ? tree : withoutManagers(tree));
    const old = before === null ? [] : yamlLines(this.managed ? before : withoutManagers(before));
    const rows = this.mode === "yaml" ? (tree === null ? [["-", "deleted"]] : lines.map((line) => [" ", line])) : folded(lineDiff(old, lines));
    this.text.replaceChildren(h("pre", {}, rows.map(([mark, line]) => h("span", { class: mark === "+" ? "added" : mark === "-" ? "removed" : mark === "…" ? "skipped" : "", text: `${mark} ${line}\n` }))));
  }
}

// An object without its managedFields, as kubectl shows it.
function withoutManagers(tree) {
  if (!tree.metadata?.managedFields) return tree;
  const { managedFields, ...metadata } = tree.metadata;
  return { ...tree, metadata };
}

// What did not change is left out, but for a few lines around what did.
function folded(rows) {
  const near = 3;
  const keep = new Uint8Array(rows.length);
  rows.forEach(([mark], at) => {
    if (mark !== " ") for (let each = Math.max(0, at - near); each <= Math.min(rows.length - 1, at + near); each += 1) keep[each] = 1;
  });
  if (!keep.includes(1)) return rows;
  const found = [];
  let skipped = 0;
  rows.forEach((row, at) => {
    if (keep[at]) {
      if (skipped) found.push(["…", counted(skipped, "line")]);
      skipped = 0;
      found.push(row);
    } else {
      skipped += 1;
    }
  });
  if (skipped) found.push(["…", counted(skipped, "line")]);
  return found;
}

function bar(name, used, all, told) {
  const part = all ? Math.min(1, used / all) : 0;
  const fill = h("span", { class: `fill fill-${name}${used > all ? " over" : ""}` });
  fill.style.width = `${(part * 100).toFixed(1)}%`;
  return h("div", { class: "bar" }, h("span", { class: "bar-name", text: name }), h("span", { class: "bar-box" }, fill),
    h("span", { class: "bar-text", text: all ? `${told(Math.max(0, all - used))} of ${told(all)} free` : "unknown" }));
}

// A node's CPUs by NUMA node and core: shared, reserved, or a container's own.
function numaMap(body, pods) {
  const names = new Map(pods.map((pod) => [pod.uid, pod.thing.name.split("/").at(-1)]));
  const owners = new Map();
  const legend = new Map();
  for (const [uid, container, cpus] of body.owned) {
    const name = `${names.get(uid) ?? uid.slice(0, 8)}/${container}`;
    if (!legend.has(name)) legend.set(name, (legend.size % 8) + 1);
    for (const cpu of cpus) owners.set(cpu, name);
  }
  const reserved = new Set(body.reserved);
  const shared = new Set(body.shared);
  const square = (cpu) => {
    const owner = owners.get(cpu);
    const state = owner ? `own own-${legend.get(owner)}` : reserved.has(cpu) ? "reserved" : shared.has(cpu) ? "shared" : "nobody";
    return h("span", { class: `cpu ${state}`, title: `CPU ${cpu}: ${owner ?? (state === "nobody" ? "lost: neither shared nor assigned" : state)}` });
  };
  return h("div", { class: "numa", role: "img", "aria-label": `CPUs: ${owners.size} owned by ${counted(legend.size, "container")}` },
    body.numa.map((numa) => h("div", { class: "numa-row" }, h("span", { class: "numa-name", text: `NUMA ${numa.id}` }),
      h("span", { class: "cores" }, numa.cores.map((core) => h("span", { class: "core" }, core.map(square)))),
      Object.entries(numa.memory).map(([kind, [used, all]]) => h("span", { class: "dim", text: `${kind} ${size(used)} of ${size(all)} given out` })))),
    legend.size ? h("div", { class: "numa-legend" }, [...legend].map(([name, number]) => h("span", {}, h("span", { class: `cpu own own-${number}` }), ` ${name}`))) : null);
}
