// Counts over the run: pods by phase, queues, utilisation, requests and their latencies, how late news comes.

import { colours, fitted, h, seconds, size } from "./dom.js";
import { nodeSummary, PLACES, podSummary, takesRoom } from "./model.js";
import { clusterQueueSummary } from "./quota.js";

const CHART = 128;
const REBUILT_MS = 2000;
const INK = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];
const PHASES = ["waiting", "bound", "Running", "Succeeded", "Failed", "terminating"];

// A chart: lines that hold a value until the next step that changes it, or dots that stand for themselves.
function series(names, unit = (value) => String(Number(value.toPrecision(4)))) {
  return { names, unit, steps: [], values: names.map(() => []) };
}

function push(chart, step, values) {
  const last = chart.steps.length - 1;
  if (last >= 0 && chart.steps[last] === step) {
    values.forEach((value, at) => { chart.values[at][last] = value; });
    return;
  }
  if (last >= 0 && values.every((value, at) => value === chart.values[at][last])) return;
  chart.steps.push(step);
  values.forEach((value, at) => chart.values[at].push(value));
}

export function chartsOf(model) {
  const pods = series(PHASES);
  const cpu = series(["requested", "allocatable"], (value) => `${Number(value.toPrecision(4))} CPUs`);
  const memory = series(["requested", "allocatable"], size);
  const counts = Object.fromEntries(PHASES.map((name) => [name, 0]));
  const sums = { cpu: 0, memory: 0, allCpu: 0, allMemory: 0 };
  const phase = (pod) => (pod.terminating ? "terminating" : pod.phase === "Pending" ? (pod.node ? "bound" : "waiting") : PHASES.includes(pod.phase) ? pod.phase : "waiting");
  const { writes } = model;
  for (let at = 0; at < writes.step.length; at += 1) {
    const thing = writes.thing[at];
    if (thing.kind !== "Pod" && thing.kind !== "Node") continue;
    const make = thing.kind === "Pod" ? podSummary : nodeSummary;
    const index = writes.index[at];
    const [before, now] = [thing.summary(index - 1, make), thing.summary(index, make)];
    const step = writes.step[at];
    if (thing.kind === "Pod") {
      for (const [pod, sign] of [[before, -1], [now, 1]]) {
        if (!pod) continue;
        counts[phase(pod)] += sign;
        if (takesRoom(pod)) {
          sums.cpu += sign * pod.cpu;
          sums.memory += sign * pod.memory;
        }
      }
      push(pods, step, PHASES.map((name) => counts[name]));
    } else {
      sums.allCpu += (now?.cpu ?? 0) - (before?.cpu ?? 0);
      sums.allMemory += (now?.memory ?? 0) - (before?.memory ?? 0);
    }
    push(cpu, step, [Math.max(0, sums.cpu), sums.allCpu]);
    push(memory, step, [Math.max(0, sums.memory), sums.allMemory]);
  }
  const queues = series(PLACES);
  const waiting = Object.fromEntries(PLACES.map((name) => [name, new Set()]));
  model.queues.step.forEach((step, at) => {
    const place = waiting[model.text(model.queues.place[at])];
    if (!place) return;
    if (model.queues.there[at]) place.add(model.queues.uid[at]);
    else place.delete(model.queues.uid[at]);
    push(queues, step, PLACES.map((name) => waiting[name].size));
  });
  return [
    { title: "Pods by phase", lines: pods },
    { title: "Scheduler's queues", lines: queues },
    { title: "CPU", lines: cpu },
    { title: "Memory", lines: memory },
    ...quotas(model),
    ...requests(model),
    { title: "Watch caches: writes behind the store", lines: lag(model) },
    { title: "Steps from a write to the news of it", dots: news(model) },
  ];
}

// Reserved quota of each resource, and pending workloads, by ClusterQueue; nothing where there are none.
function quotas(model) {
  const { writes } = model;
  const things = model.byKind.get("ClusterQueue") ?? [];
  if (!things.length) return [];
  const names = things.map((each) => each.name).sort().slice(0, INK.length);
  const used = new Map(); // resource -> queue -> amount
  const pending = new Map();
  const charts = new Map();
  const waiting = series(names);
  for (let at = 0; at < writes.step.length; at += 1) {
    const thing = writes.thing[at];
    if (thing.kind !== "ClusterQueue" || !names.includes(thing.name)) continue;
    const now = thing.summary(writes.index[at], clusterQueueSummary);
    const sums = new Map();
    for (const each of now?.quota ?? []) sums.set(each.resource, (sums.get(each.resource) ?? 0) + each.used);
    for (const resource of new Set([...sums.keys(), ...used.keys()])) {
      if (!used.has(resource)) {
        used.set(resource, new Map());
        charts.set(resource, resource === "memory" ? series(names, size) : series(names));
      }
      used.get(resource).set(thing.name, sums.get(resource) ?? 0);
      push(charts.get(resource), writes.step[at], names.map((name) => used.get(resource).get(name) ?? 0));
    }
    pending.set(thing.name, now?.pending ?? 0);
    push(waiting, writes.step[at], names.map((name) => pending.get(name) ?? 0));
  }
  const found = [...charts].map(([resource, lines]) => ({ title: `Reserved quota of ${resource}, by ClusterQueue`, lines }));
  return [...found, { title: "Pending workloads, by ClusterQueue", lines: waiting }];
}

// Requests as the audit tells of them: how many so far by verb, and how long each took.
function requests(model) {
  const audited = model.texts.indexOf("apiserver.audited");
  const verbs = [];
  const rows = [];
  for (let at = 0; at < model.count; at += 1) {
    if (model.ev.event[at] !== audited) continue;
    const data = model.data(at);
    if (!verbs.includes(data.verb)) verbs.push(data.verb);
    rows.push([model.ev.step[at], data.verb, (model.ev.t[at] - data.began_ns) / 1e9, `${data.verb} ${data.resource} by ${data.agent}: ${data.code}`]);
  }
  const lines = series(verbs.slice(0, 8));
  const counts = new Map(verbs.map((verb) => [verb, 0]));
  const dots = { unit: (value) => seconds(value * 1e9), steps: [], values: [], words: [] };
  for (const [step, verb, took, words] of rows) {
    counts.set(verb, counts.get(verb) + 1);
    push(lines, step, lines.names.map((name) => counts.get(name)));
    if (verb !== "watch") {
      dots.steps.push(step);
      dots.values.push(took);
      dots.words.push(words);
    }
  }
  return [{ title: "API requests answered so far", lines }, { title: "Latency of API requests, in virtual time (watches apart)", dots }];
}

function lag(model) {
  const rows = model.caches;
  const now = new Map();
  const found = series(["furthest behind", "caches behind"]);
  rows.step.forEach((step, at) => {
    now.set(`${rows.server[at]} ${rows.resource[at]}`, Math.abs(rows.behind[at]));
    const values = [...now.values()];
    push(found, step, [Math.max(...values), values.filter(Boolean).length]);
  });
  return found;
}

// For every handler that is told of an object: how many steps ago that version was written.
function news(model) {
  const told = model.texts.indexOf("informer.told");
  const dots = { unit: (value) => `${value} steps`, steps: [], values: [], words: [] };
  for (let at = 0; at < model.count; at += 1) {
    if (model.ev.event[at] !== told || !model.ev.rv[at]) continue;
    const obj = model.text(model.ev.obj[at]);
    const wrote = model.writeOf(obj, model.ev.rv[at]);
    if (!wrote) continue;
    dots.steps.push(model.ev.step[at]);
    dots.values.push(model.ev.step[at] - wrote);
    dots.words.push(`${model.tasks[model.ev.task[at]].label} told of ${obj}`);
  }
  return dots;
}

export class Charts {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "charts" });
    this.made = null;
  }

  // There is more to show; a run that goes on is counted anew only now and then.
  refresh(atOnce = false) {
    if (atOnce) this.made = null;
    this.behind = true;
  }

  repaint() {
    for (const each of this.made ?? []) each.drawn = "";
  }

  build() {
    this.behind = false;
    this.built = performance.now();
    this.made = chartsOf(this.app.model).map((chart) => {
      const canvas = h("canvas", { class: "chart-canvas", role: "img" });
      const values = h("div", { class: "chart-values" });
      const room = h("div", { class: "chart-room" }, canvas);
      const element = h("figure", { class: "chart" }, h("figcaption", { text: chart.title }), room, values);
      canvas.addEventListener("pointerdown", (event) => this.app.go(this.stepAt(event.offsetX, room.clientWidth)));
      canvas.addEventListener("pointermove", (event) => event.buttons && this.app.go(this.stepAt(event.offsetX, room.clientWidth)));
      return { ...chart, canvas, room, values, element, drawn: "" };
    });
    this.element.replaceChildren(...this.made.map((each) => each.element));
  }

  get axis() {
    return this.app.diagrams[0].axis;
  }

  stepAt(x, width) {
    const { axis } = this;
    const wanted = (Math.max(0, Math.min(width, x)) / width) * axis.end;
    if (axis.mode === "steps") return Math.round(wanted);
    const time = this.app.model.stepTime;
    let low = 0;
    let high = time.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (time[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  draw(step) {
    if (!this.made || (this.behind && performance.now() - this.built > REBUILT_MS)) this.build();
    const paint = colours(["line", "dim", "text", "cursor", "back", ...INK]);
    for (const each of this.made) this.drawChart(each, step, paint);
  }

  drawChart(chart, step, paint) {
    const { axis } = this;
    const { model } = this.app;
    const width = Math.max(80, chart.room.clientWidth);
    const x = (at) => (axis.value(Math.min(at, axis.last)) / axis.end) * width;
    const name = `${width} ${axis.mode} ${model.revision} ${paint.back}`;
    if (chart.drawn !== name) {
      chart.drawn = name;
      chart.still = document.createElement("canvas");
      const pen = fitted(chart.still, width, CHART);
      pen.font = "10.5px system-ui, sans-serif";
      const all = chart.lines ? chart.lines.values : [chart.dots.values];
      let most = 0;
      for (const values of all) for (const value of values) if (value > most) most = value;
      chart.most = most;
      const y = (value) => CHART - 4 - (most ? value / most : 0) * (CHART - 22);
      pen.fillStyle = paint.line;
      for (const part of [0, 0.5, 1]) pen.fillRect(0, Math.round(y(part * most)), width, 1);
      if (chart.lines) {
        chart.lines.values.forEach((values, at) => {
          pen.strokeStyle = paint[INK[at % INK.length]];
          pen.lineWidth = 1.6;
          pen.beginPath();
          let drawnX = -1;
          values.forEach((value, index) => {
            const left = x(chart.lines.steps[index]);
            if (index && index < values.length - 1 && left - drawnX < 0.4 && value === values[index - 1]) return;
            if (index) pen.lineTo(left, y(values[index - 1]));
            else pen.moveTo(left, y(value));
            pen.lineTo(left, y(value));
            drawnX = left;
          });
          if (values.length) pen.lineTo(width, y(values.at(-1)));
          pen.stroke();
        });
      } else {
        pen.fillStyle = paint.c1;
        pen.globalAlpha = 0.55;
        chart.dots.steps.forEach((at, index) => pen.fillRect(x(at) - 1.5, y(chart.dots.values[index]) - 1.5, 3, 3));
        pen.globalAlpha = 1;
      }
      pen.fillStyle = paint.dim;
      pen.textBaseline = "top";
      pen.fillText((chart.lines ?? chart.dots).unit(most), 2, 3);
    }
    const pen = fitted(chart.canvas, width, CHART);
    pen.clearRect(0, 0, width, CHART);
    pen.drawImage(chart.still, 0, 0, width, CHART);
    pen.fillStyle = paint.cursor;
    pen.fillRect(x(step) - 0.5, 0, 1, CHART);
    this.tell(chart, step);
  }

  tell(chart, step) {
    if (chart.lines) {
      const { lines } = chart;
      let at = lines.steps.length - 1;
      let low = 0;
      let high = lines.steps.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (lines.steps[middle] <= step) low = middle + 1;
        else high = middle;
      }
      at = low - 1;
      const words = lines.names.map((name, index) => [name, at < 0 ? 0 : lines.values[index][at]]);
      if (!chart.spans) {
        chart.spans = words.map(([name], index) => h("span", { class: `value ink-${(index % INK.length) + 1}` }, h("span", { class: "swatch", "aria-hidden": "true" }), `${name} `, h("b", {})));
        chart.values.replaceChildren(...chart.spans);
      }
      words.forEach(([, value], index) => { chart.spans[index].lastChild.textContent = lines.unit(value); });
      chart.canvas.setAttribute("aria-label", `${chart.title} at step ${step}: ${words.map(([name, value]) => `${name} ${lines.unit(value)}`).join(", ")}`);
      return;
    }
    const { dots } = chart;
    let last = -1;
    for (let low = 0, high = dots.steps.length; low < high;) {
      const middle = (low + high) >> 1;
      if (dots.steps[middle] <= step) {
        last = middle;
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const words = last < 0 ? "none yet" : `${dots.unit(dots.values[last])}: ${dots.words[last]}, step ${dots.steps[last]}`;
    chart.values.textContent = words;
    chart.canvas.setAttribute("aria-label", `${chart.title}. The last one by step ${step}: ${words}`);
  }
}
