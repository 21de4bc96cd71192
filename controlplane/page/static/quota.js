// Kueue's quota at a step: the tree of cohorts, with what each ClusterQueue has, uses, borrows, and which workloads wait.

import { counted, h, size } from "./dom.js";
import { amount } from "./model.js";

const CHIPS = 40;
const SHOWN = 200; // queues of a tree

function places(groups) {
  const found = new Map();
  for (const group of groups ?? []) {
    for (const flavor of group.flavors ?? []) {
      for (const each of flavor.resources ?? []) found.set(`${flavor.name} ${each.name}`, { flavor: flavor.name, resource: each.name, nominal: amount(each.nominalQuota), used: 0, borrowed: 0 });
    }
  }
  return found;
}

// A ClusterQueue's quota by flavor and resource; `used` is what workloads have reserved.
export function clusterQueueSummary(tree) {
  const spec = tree.spec ?? {};
  const status = tree.status ?? {};
  const quota = places(spec.resourceGroups);
  for (const flavor of status.flavorsReservation ?? []) {
    for (const each of flavor.resources ?? []) {
      const place = `${flavor.name} ${each.name}`;
      const known = quota.get(place) ?? { flavor: flavor.name, resource: each.name, nominal: 0 };
      quota.set(place, { ...known, used: amount(each.total), borrowed: amount(each.borrowed) });
    }
  }
  return {
    cohort: spec.cohortName ?? spec.cohort ?? "",
    quota: [...quota.values()],
    pending: status.pendingWorkloads ?? 0,
    admitted: status.admittedWorkloads ?? 0,
    stopped: (spec.stopPolicy ?? "None") === "None" ? "" : spec.stopPolicy,
  };
}

export function cohortSummary(tree) {
  const spec = tree.spec ?? {};
  return { parent: spec.parentName ?? spec.parent ?? "", quota: [...places(spec.resourceGroups).values()] };
}

export function localQueueSummary(tree) {
  return { queue: tree.spec?.clusterQueue ?? "" };
}

export function workloadSummary(tree) {
  const conditions = tree.status?.conditions ?? [];
  const holds = (type) => conditions.some((each) => each.type === type && each.status === "True");
  const refused = conditions.find((each) => each.type === "QuotaReserved" && each.status !== "True");
  return {
    local: `${tree.metadata?.namespace ?? ""}/${tree.spec?.queueName ?? ""}`,
    queue: tree.status?.admission?.clusterQueue ?? "",
    state: holds("Finished") ? "finished" : holds("Admitted") ? "admitted" : holds("QuotaReserved") ? "reserved" : holds("Evicted") ? "evicted" : "pending",
    priority: tree.spec?.priority ?? 0,
    why: refused?.message ?? "",
  };
}

// The trees of cohorts at a step: roots, each {name, thing, quota, queues, children}; a queue without a cohort is a root of its own.
// Quota of a cohort is the sum of its own and of everything in it.
export function quotaTrees(model, step) {
  const queues = model.alive("ClusterQueue", step).map(([thing, index]) => ({ name: thing.name, thing, ...thing.summary(index, clusterQueueSummary), workloads: [] }));
  if (!queues.length) return [];
  const byName = new Map(queues.map((each) => [each.name, each]));
  const locals = new Map(model.alive("LocalQueue", step).map(([thing, index]) => [thing.name, thing.summary(index, localQueueSummary).queue]));
  for (const [thing, index] of model.alive("Workload", step)) {
    const workload = thing.summary(index, workloadSummary);
    if (workload.state === "finished") continue;
    byName.get(workload.queue || locals.get(workload.local))?.workloads.push({ thing, ...workload });
  }
  const cohorts = new Map();
  const cohort = (name) => {
    if (!cohorts.has(name)) cohorts.set(name, { name, thing: null, parent: "", own: [], queues: [], children: [] });
    return cohorts.get(name);
  };
  for (const [thing, index] of model.alive("Cohort", step)) {
    const { parent, quota } = thing.summary(index, cohortSummary);
    Object.assign(cohort(thing.name), { thing, parent, own: quota });
    if (parent) cohort(parent);
  }
  for (const each of queues) if (each.cohort) cohort(each.cohort).queues.push(each);
  const roots = [];
  for (const each of cohorts.values()) {
    if (each.parent && !isBelow(cohorts, each.parent, each.name)) cohorts.get(each.parent).children.push(each);
    else roots.push(each);
  }
  for (const root of roots) sumUp(root);
  const alone = queues.filter((each) => !each.cohort).map((each) => ({ name: "", thing: null, queues: [each], children: [], quota: [] }));
  const byCohort = (one, other) => (one.name < other.name ? -1 : 1);
  return [...roots.sort(byCohort), ...alone];
}

// Whether a cohort is above another one: such a circle is an error of the user's, which Kueue keeps inactive.
function isBelow(cohorts, name, above) {
  for (let at = name, left = cohorts.size; at && left >= 0; at = cohorts.get(at)?.parent, left -= 1) if (at === above) return true;
  return false;
}

function sumUp(cohort) {
  const total = new Map();
  const add = ({ flavor, resource, nominal, used }) => {
    const place = `${flavor} ${resource}`;
    const known = total.get(place) ?? { flavor, resource, nominal: 0, used: 0 };
    total.set(place, { ...known, nominal: known.nominal + nominal, used: known.used + used });
  };
  cohort.own.forEach(add);
  for (const each of cohort.queues) each.quota.forEach(add);
  for (const each of cohort.children) {
    sumUp(each);
    each.quota.forEach(add);
  }
  cohort.quota = [...total.values()];
}

function told(resource) {
  return resource === "memory" ? size : (value) => String(Number(value.toFixed(3)));
}

function quotaBar(each) {
  const written = told(each.resource);
  const part = each.nominal ? Math.min(1, each.used / each.nominal) : each.used ? 1 : 0;
  const fill = h("span", { class: `fill fill-${each.resource === "memory" ? "memory" : "cpu"}${each.used > each.nominal ? " over" : ""}` });
  fill.style.width = `${(part * 100).toFixed(1)}%`;
  const name = `${each.resource} (${each.flavor})`;
  const borrowed = each.borrowed ? `, ${written(each.borrowed)} borrowed` : "";
  return h("div", { class: "bar" }, h("span", { class: "bar-name", title: name, text: name }), h("span", { class: "bar-box" }, fill),
    h("span", { class: "bar-text", text: `${written(each.used)} of ${written(each.nominal)} reserved${borrowed}` }));
}

export function quotaView(app, step) {
  const trees = quotaTrees(app.model, step);
  let left = SHOWN;
  const link = (thing, text) => {
    if (!thing) return h("span", { text });
    const made = h("button", { type: "button", class: "link", text });
    made.addEventListener("click", () => app.showObject(thing.obj));
    return made;
  };
  const chip = (workload) => {
    const state = { admitted: "running", reserved: "unready", evicted: "terminating", pending: "pending" }[workload.state];
    const title = `${workload.thing.name}: ${workload.state}, priority ${workload.priority}${workload.why ? `; ${workload.why}` : ""}`;
    const made = h("button", { type: "button", class: `chip is-${state}`, title, text: workload.thing.name.split("/").at(-1) });
    made.addEventListener("click", () => app.showObject(workload.thing.obj));
    return made;
  };
  const queue = (each) => h("div", { class: "node" },
    h("div", { class: "node-head" }, link(each.thing, each.name), each.stopped ? h("span", { class: "trouble", text: each.stopped }) : null,
      h("span", { class: "dim", text: `${each.admitted} admitted, ${each.pending} pending` })),
    each.quota.map(quotaBar),
    h("div", { class: "chips" }, each.workloads.slice(0, CHIPS).map(chip), each.workloads.length > CHIPS ? h("span", { class: "dim", text: `+${each.workloads.length - CHIPS}` }) : null));
  const branch = (cohort) => {
    const shown = cohort.queues.slice(0, Math.max(0, left));
    left -= cohort.queues.length;
    return h("div", { class: cohort.name ? "cohort" : "" },
      cohort.name ? h("div", { class: "cohort-head" }, h("b", {}, "Cohort ", link(cohort.thing, cohort.name)), cohort.quota.map(quotaBar)) : null,
      h("div", { class: "nodes" }, shown.map(queue)),
      shown.length < cohort.queues.length ? h("p", { class: "note", text: `and ${counted(cohort.queues.length - shown.length, "queue")} more` }) : null,
      cohort.children.map(branch));
  };
  return trees.map(branch);
}
