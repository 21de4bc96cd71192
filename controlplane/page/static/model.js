// The model of a run on this side: events by step, causes, objects at a step, queues, caches, attempts.
// `controlplane/page/model.py` makes what `add` takes in; everything is kept column by column.

import { FORMAT } from "./source.js";

// The places of the scheduler's queue, in the order of a pod's way.
export const PLACES = ["active", "backoff", "unschedulable", "gated", "in flight", "binding"];

const WHOLE = 0;
const GONE = 2;

// The greatest index whose value is not above `wanted`; -1 if there is none.
export function lastNotAbove(sorted, wanted, length = sorted.length) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function withChange(tree, path, at, rest) {
  if (at === path.length) return rest[0];
  const key = path[at];
  const copy = Array.isArray(tree) ? tree.slice() : { ...tree };
  if (at === path.length - 1 && rest.length === 0) delete copy[key];
  else copy[key] = withChange(copy[key], path, at + 1, rest);
  return copy;
}

// A tree with changes made; what did not change is shared with the old one.
export function changed(tree, changes) {
  for (const [path, ...rest] of changes) tree = withChange(tree, path, 0, rest);
  return tree;
}

const BINARY = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };
const DECIMAL = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };

// A quantity as a number, for bars and sums.
export function amount(text) {
  if (text === undefined || text === null) return 0;
  const found = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)$/.exec(String(text));
  if (!found) return 0;
  return Number(found[1]) * (BINARY[found[2]] ?? DECIMAL[found[2]] ?? 1);
}

class Thing {
  constructor(key, obj) {
    this.key = key;
    this.obj = obj;
    const [kind, ...rest] = obj.split("/");
    this.kind = kind;
    this.name = rest.join("/");
    this.steps = [];
    this.rvs = [];
    this.uids = [];
    this.forms = [];
    this.bodies = [];
    this.trees = [];
    this.summaries = [];
  }

  // Which version stands at a step; -1 before the first. Later versions at one step win.
  indexAt(step) {
    return lastNotAbove(this.steps, step);
  }

  // The tree of a version; null where the object is gone.
  tree(index) {
    if (index < 0) return null;
    let from = this.trees.length;
    while (from <= index) {
      const form = this.forms[from];
      if (form === WHOLE) this.trees.push(this.bodies[from]);
      else if (form === GONE) this.trees.push(null);
      else this.trees.push(changed(this.trees[from - 1], this.bodies[from]));
      this.bodies[from] = null;
      from += 1;
    }
    return this.trees[index];
  }

  at(step) {
    return this.tree(this.indexAt(step));
  }

  // What `make` says of a version, computed once.
  summary(index, make) {
    if (index < 0) return null;
    let found = this.summaries[index];
    if (found === undefined) {
      const tree = this.tree(index);
      found = this.summaries[index] = tree === null ? null : make(tree);
    }
    return found;
  }
}

const FEW = 3;
const TAKES = /^takes (.*) from /;
const KEPT_EVERY = 2000;
const TEXTS = 2 ** 26;

// What rows come to, one after the other, up to any of them: some states on the way are kept.
class Fold {
  constructor(put) {
    this.put = put;
    this.kept = [new Map()];
    this.now = new Map();
    this.at = 0;
  }

  // After so many rows.
  after(count) {
    const part = Math.min(Math.floor(count / KEPT_EVERY), this.kept.length - 1);
    if (count < this.at || part * KEPT_EVERY > this.at) {
      this.now = new Map(this.kept[part]);
      this.at = part * KEPT_EVERY;
    }
    while (this.at < count) {
      this.put(this.now, this.at);
      this.at += 1;
      if (this.at === this.kept.length * KEPT_EVERY) this.kept.push(new Map(this.now));
    }
    return this.now;
  }
}

export class Model {
  constructor() {
    this.run = {};
    this.lacks = [];
    this.findings = {};
    this.texts = [];
    this.tasks = [];
    this.actors = [];
    this.actorNumbers = new Map();
    this.taskActors = [];
    this.count = 0;
    this.step = 0;
    this.ev = { step: [], t: [], task: [], event: [], level: [], obj: [], uid: [], rv: [], cause: [], said: [], data: [] };
    this.stepTime = [0];
    this.stepTask = [-1];
    this.stepFirst = [0];
    this.stepCause = [0];
    this.stepPoint = [0];
    this.received = new Map();
    this.sent = new Map();
    this.things = new Map();
    this.byObj = new Map();
    this.byKind = new Map();
    this.writes = { step: [], thing: [], index: [] };
    this.queues = { step: [], place: [], obj: [], uid: [], there: [], attempts: [], until: [], plugins: [] };
    this.caches = { step: [], server: [], resource: [], rv: [], behind: [] };
    this.choices = { step: [], index: [], kind: [], n: [], value: [], label: [] };
    this.chosenAt = new Map();
    this.cpus = { step: [], node: [], body: [] };
    this.attempts = { step: [], obj: [], uid: [], body: [] };
    this.revision = 0;
    this.waiting = new Fold((held, at) => {
      const { uid, place, there, step } = this.queues;
      const name = uid[at] * TEXTS + place[at];
      if (there[at]) held.set(name, { at, since: held.get(name)?.since ?? step[at] });
      else held.delete(name);
    });
    this.watching = new Fold((held, at) => held.set(this.caches.server[at] * TEXTS + this.caches.resource[at], at));
    this.mapping = new Fold((held, at) => held.set(this.text(this.cpus.node[at]), this.cpus.body[at]));
  }

  // Take in a part that begins where this model ends.
  add(part) {
    if (part.format !== FORMAT) throw new Error(`model format ${part.format}, this page reads ${FORMAT}`);
    const [firstText, texts] = part.texts;
    if (firstText !== this.texts.length) throw new Error("a part of the model is missing");
    for (const text of texts) this.texts.push(text);
    for (const [actor, task] of part.tasks[1]) this.addTask(this.texts[actor], this.texts[task]);
    this.run = part.run;
    this.lacks = part.lacks;
    this.findings = part.findings;
    this.addEvents(part.events);
    this.addVersions(part.versions);
    for (const name of ["queues", "caches", "choices", "cpus", "attempts"]) {
      const from = this[name].step.length;
      append(this[name], part[name]);
      if (name === "choices") {
        for (let at = from; at < this.choices.step.length; at += 1) {
          const step = this.choices.step[at];
          if (!this.chosenAt.has(step)) this.chosenAt.set(step, []);
          this.chosenAt.get(step).push(at);
        }
      }
    }
    this.step = Math.max(this.step, part.step, this.stepTime.length - 1);
    this.fillSteps(this.step);
    this.revision += 1;
  }

  addTask(actor, task) {
    if (!this.actorNumbers.has(actor)) {
      this.actorNumbers.set(actor, this.actors.length);
      this.actors.push({ name: actor, steps: 0, tasks: [] });
    }
    const number = this.actorNumbers.get(actor);
    this.actors[number].tasks.push(this.tasks.length);
    this.tasks.push({ actor, task, label: `${actor}/${task}`, steps: 0 });
    this.taskActors.push(number);
  }

  fillSteps(upTo) {
    while (this.stepTime.length <= upTo) {
      const before = this.stepTime.length - 1;
      this.stepTime.push(this.stepTime[before]);
      this.stepTask.push(-1);
      this.stepFirst.push(this.count);
      this.stepCause.push(0);
      this.stepPoint.push(0);
    }
  }

  addEvents(rows) {
    const ev = this.ev;
    const message = this.texts.indexOf("message");
    let step = 0;
    let t = 0;
    for (let row = 0; row < rows.step.length; row += 1) {
      step += rows.step[row];
      t += rows.t[row];
      const cause = rows.cause[row] ? step - rows.cause[row] + 1 : 0;
      const task = rows.task[row];
      const at = this.count;
      if (step >= this.stepTime.length) {
        this.fillSteps(step);
        this.stepFirst[step] = at;
        this.stepTime[step] = t;
      }
      if (rows.level[row] === 0 && step > 0) {
        this.stepTask[step] = task;
        this.stepCause[step] = cause;
        this.stepPoint[step] = rows.event[row];
        this.tasks[task].steps += 1;
        this.actors[this.taskActors[task]].steps += 1;
      } else if (this.stepTask[step] < 0 && step > 0) {
        this.stepTask[step] = task;
      }
      if (rows.event[row] === message && cause && cause !== step) {
        if (!this.received.has(step)) this.received.set(step, []);
        this.received.get(step).push(cause);
        const [, message] = TAKES.exec(this.text(rows.said[row])) ?? [];
        if (message && !this.sent.get(cause)?.includes(message)) this.sent.set(cause, [...(this.sent.get(cause) ?? []), message]);
      }
      ev.step.push(step);
      ev.t.push(t);
      ev.cause.push(cause);
      for (const name of ["task", "event", "level", "obj", "uid", "rv", "said", "data"]) ev[name].push(rows[name][row]);
      this.count += 1;
    }
  }

  addVersions(rows) {
    let step = 0;
    for (let row = 0; row < rows.step.length; row += 1) {
      step += rows.step[row];
      const key = this.texts[rows.key[row]];
      let thing = this.things.get(key);
      if (!thing) {
        thing = new Thing(key, this.texts[rows.obj[row]]);
        this.things.set(key, thing);
        this.byObj.set(thing.obj, thing);
        if (!this.byKind.has(thing.kind)) this.byKind.set(thing.kind, []);
        this.byKind.get(thing.kind).push(thing);
      }
      this.writes.step.push(step);
      this.writes.thing.push(thing);
      this.writes.index.push(thing.steps.length);
      thing.steps.push(step);
      thing.rvs.push(rows.rv[row]);
      thing.uids.push(this.texts[rows.uid[row]]);
      thing.forms.push(rows.form[row]);
      thing.bodies.push(rows.body[row]);
    }
  }

  // ------------------------------------------------------------------ events

  text(number) {
    return this.texts[number] ?? "";
  }

  // First and last (excluded) event of a step.
  eventsOf(step) {
    const first = this.stepFirst[step] ?? this.count;
    let last = first;
    while (last < this.count && this.ev.step[last] === step) last += 1;
    return [first, last];
  }

  data(event) {
    const text = this.text(this.ev.data[event]);
    return text ? JSON.parse(text) : {};
  }

  // An event in words.
  said(event) {
    return this.text(this.ev.said[event]) || this.text(this.ev.event[event]);
  }

  label(step) {
    const task = this.stepTask[step];
    return task < 0 ? "world" : this.tasks[task].label;
  }

  // What led to a step: the messages it took, and the step that woke its task.
  causes(step) {
    const found = this.received.get(step)?.slice() ?? [];
    const woken = this.stepCause[step];
    if (woken && woken < step && !found.includes(woken)) found.push(woken);
    return found;
  }

  // All steps that led to a step, itself included.
  past(step) {
    const found = new Set([step]);
    const left = [step];
    while (left.length) {
      for (const cause of this.causes(left.pop())) {
        if (!found.has(cause)) {
          found.add(cause);
          left.push(cause);
        }
      }
    }
    return found;
  }

  // Back from a step along what decided it: the message it took, else who woke it.
  chain(step, hops = 12) {
    const found = [];
    let at = step;
    while (at > 0 && found.length < hops) {
      const next = this.causes(at)[0] ?? 0;
      if (!found.length || found.at(-1).label !== this.label(at) || this.received.has(at)) {
        found.push({ step: at, label: this.label(at), said: this.told(at) });
      } else if (!found.at(-1).said) {
        found.at(-1).said = this.told(at);
      }
      if (!next || next >= at) break;
      at = next;
    }
    return found;
  }

  // What a step did, in a line.
  told(step) {
    const [first, last] = this.eventsOf(step);
    const loud = [];
    const quiet = [];
    for (let at = first; at < last; at += 1) {
      const said = this.text(this.ev.said[at]);
      if (!said || !this.ev.level[at]) continue;
      (this.text(this.ev.level[at]) === "trace" ? quiet : loud).push(said);
    }
    const said = loud.length ? loud : quiet;
    return said.slice(0, 3).join("; ") + (said.length > 3 ? ` and ${said.length - 3} more` : "");
  }

  // The step at which a version of an object was written, 0 if it is not known.
  writeOf(obj, rv) {
    const thing = this.byObj.get(obj);
    const at = thing ? thing.rvs.lastIndexOf(rv) : -1;
    return at < 0 ? 0 : thing.steps[at];
  }

  // Stale reads on which a write rests: those that tell the violation, where one broke and they are known; and the others.
  staleReads() {
    const used = (this.findings.stale ?? []).filter((each) => each.used);
    if (!this.findings.sentence) return { main: [], others: used };
    const told = used.filter((each) => each.in_story);
    const main = told.length || used.length > FEW ? told : used;
    return { main, others: used.filter((each) => !main.includes(each)) };
  }

  // Of a stale read by name whether it found another object than the one that it was about: both uids, or null.
  mistaken(stale) {
    const [first, last] = this.eventsOf(stale.step);
    for (let at = first; at < last; at += 1) {
      const { popped } = this.data(at);
      const uid = this.text(this.ev.uid[at]);
      if (popped && popped !== uid && this.text(this.ev.obj[at]) === stale.obj) return { popped, uid };
    }
    return null;
  }

  // ------------------------------------------------------------------ the cluster at a step

  alive(kind, step) {
    const found = [];
    for (const thing of this.byKind.get(kind) ?? []) {
      const index = thing.indexAt(step);
      if (index >= 0 && thing.forms[index] !== GONE) found.push([thing, index]);
    }
    return found;
  }

  pods(step) {
    return this.alive("Pod", step).map(([thing, index]) => ({ thing, index, ...thing.summary(index, podSummary) }));
  }

  nodes(step) {
    return this.alive("Node", step).map(([thing, index]) => ({ thing, index, ...thing.summary(index, nodeSummary) }));
  }

  // Devices at a step, by node: node -> [{driver, pool, device, holders: [{thing, pods}]}]; "" for devices of several nodes.
  devicesAt(step) {
    const slices = this.alive("ResourceSlice", step).map(([thing, index]) => thing.summary(index, sliceSummary));
    const found = new Map();
    if (!slices.length) return found;
    const holders = new Map();
    for (const [thing, index] of this.alive("ResourceClaim", step)) {
      const { devices, pods } = thing.summary(index, claimSummary);
      for (const device of devices) {
        if (!holders.has(device)) holders.set(device, []);
        holders.get(device).push({ thing, pods });
      }
    }
    const newest = new Map();
    for (const each of slices) newest.set(each.name, Math.max(newest.get(each.name) ?? 0, each.generation));
    for (const slice of slices) {
      if (slice.generation < newest.get(slice.name)) continue;
      for (const [node, device] of slice.devices) {
        if (!found.has(node)) found.set(node, []);
        found.get(node).push({ driver: slice.driver, pool: slice.pool, device, holders: holders.get(`${slice.name} ${device}`) ?? [] });
      }
    }
    return found;
  }

  // Places of the scheduler's queue at a step: place -> [{obj, uid, attempts, until, plugins, since}].
  queuesAt(step) {
    const rows = this.queues;
    const held = this.waiting.after(lastNotAbove(rows.step, step) + 1);
    const places = new Map();
    for (const { at, since } of held.values()) {
      const place = this.text(rows.place[at]);
      if (!places.has(place)) places.set(place, []);
      places.get(place).push({
        obj: this.text(rows.obj[at]),
        uid: this.text(rows.uid[at]),
        attempts: rows.attempts[at],
        until: rows.until[at],
        plugins: this.text(rows.plugins[at]),
        since,
      });
    }
    return places;
  }

  // What the queue did with a pod: [{step, place, there, attempts, plugins}].
  queueHistory(uid) {
    const rows = this.queues;
    const found = [];
    const number = this.texts.indexOf(uid);
    for (let at = 0; at < rows.step.length; at += 1) {
      if (rows.uid[at] === number) {
        found.push({
          step: rows.step[at],
          place: this.text(rows.place[at]),
          there: rows.there[at] === 1,
          attempts: rows.attempts[at],
          until: rows.until[at],
          plugins: this.text(rows.plugins[at]),
        });
      }
    }
    return found;
  }

  // Every watch cache at a step: [{server, resource, rv, behind}].
  cachesAt(step) {
    const rows = this.caches;
    const held = this.watching.after(lastNotAbove(rows.step, step) + 1);
    return [...held.values()].map((at) => ({
      server: this.text(rows.server[at]),
      resource: this.text(rows.resource[at]).replace("/registry/", "").replace(/\/$/, ""),
      rv: rows.rv[at],
      behind: rows.behind[at],
    }));
  }

  // For every handler and kind: what it was told last, and how many writes that it is told of later were there already.
  newsAt(step) {
    const found = [];
    for (const { task, kind, steps, wrote, rvs } of this.news()) {
      const last = lastNotAbove(steps, step);
      let coming = 0;
      for (let at = last + 1; at < steps.length && wrote[at] <= step; at += 1) coming += 1;
      if (last >= 0 || coming) found.push({ task, kind, coming, step: steps[last] ?? 0, rv: rvs[last] ?? 0 });
    }
    return found;
  }

  news() {
    if (this.newsKnown === this.count) return this.newsKept;
    this.newsKnown = this.count;
    const told = this.texts.indexOf("informer.told");
    const by = new Map();
    for (let at = 0; at < this.count; at += 1) {
      if (this.ev.event[at] !== told) continue;
      const obj = this.text(this.ev.obj[at]);
      const rv = this.ev.rv[at];
      const wrote = this.writeOf(obj, rv);
      const kind = obj.split("/")[0];
      const name = `${this.ev.task[at]} ${kind}`;
      if (!by.has(name)) by.set(name, { task: this.tasks[this.ev.task[at]].label, kind, steps: [], wrote: [], rvs: [] });
      const mine = by.get(name);
      mine.steps.push(this.ev.step[at]);
      mine.wrote.push(wrote || this.ev.step[at]);
      mine.rvs.push(rv);
    }
    this.newsKept = [...by.values()];
    return this.newsKept;
  }

  cpusAt(step) {
    return this.mapping.after(lastNotAbove(this.cpus.step, step) + 1);
  }
}

function append(columns, rows) {
  let step = 0;
  for (const apart of rows.step) {
    step += apart;
    columns.step.push(step);
  }
  for (const name of Object.keys(rows)) if (name !== "step") for (const value of rows[name]) columns[name].push(value);
}

// What a pod asks for: containers together, or its biggest first container; and its overhead.
function asked(spec, resource) {
  const of = (container) => amount(container.resources?.requests?.[resource]);
  const together = (spec.containers ?? []).reduce((sum, each) => sum + of(each), 0);
  let sidecars = 0;
  let first = 0;
  for (const each of spec.initContainers ?? []) {
    if (each.restartPolicy === "Always") sidecars += of(each);
    else first = Math.max(first, sidecars + of(each));
  }
  return Math.max(together + sidecars, first) + amount(spec.overhead?.[resource]);
}

export function podSummary(tree) {
  const spec = tree.spec ?? {};
  const status = tree.status ?? {};
  const conditions = status.conditions ?? [];
  const scheduled = conditions.find((each) => each.type === "PodScheduled");
  return {
    uid: tree.metadata?.uid ?? "",
    phase: status.phase ?? "Pending",
    node: spec.nodeName ?? "",
    nominated: status.nominatedNodeName ?? "",
    ready: conditions.some((each) => each.type === "Ready" && each.status === "True"),
    terminating: Boolean(tree.metadata?.deletionTimestamp),
    cpu: asked(spec, "cpu"),
    memory: asked(spec, "memory"),
    reason: scheduled && scheduled.status === "False" ? scheduled.reason ?? "" : "",
    message: scheduled && scheduled.status === "False" ? scheduled.message ?? "" : "",
  };
}

export function nodeSummary(tree) {
  const allocatable = tree.status?.allocatable ?? {};
  const ready = (tree.status?.conditions ?? []).find((each) => each.type === "Ready");
  return {
    cpu: amount(allocatable.cpu),
    memory: amount(allocatable.memory),
    pods: amount(allocatable.pods),
    ready: ready ? ready.status : "",
    unschedulable: Boolean(tree.spec?.unschedulable),
    taints: (tree.spec?.taints ?? []).map((each) => `${each.key}${each.value ? `=${each.value}` : ""}:${each.effect}`),
  };
}

function sliceSummary(tree) {
  const spec = tree.spec ?? {};
  const pool = spec.pool?.name ?? "";
  return {
    driver: spec.driver ?? "",
    pool,
    name: `${spec.driver} ${pool}`,
    generation: spec.pool?.generation ?? 0,
    devices: (spec.devices ?? []).map((each) => [spec.nodeName ?? each.nodeName ?? "", each.name]),
  };
}

function claimSummary(tree) {
  const status = tree.status ?? {};
  return {
    devices: (status.allocation?.devices?.results ?? []).map((each) => `${each.driver} ${each.pool} ${each.device}`),
    pods: (status.reservedFor ?? []).map((each) => (each.resource === "pods" ? each.name : `${each.resource}/${each.name}`)),
  };
}

// Counted where it takes up room on a node.
export function takesRoom(pod) {
  return pod.node !== "" && pod.phase !== "Succeeded" && pod.phase !== "Failed";
}
