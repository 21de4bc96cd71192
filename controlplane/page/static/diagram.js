// The space-time diagram: a lane per actor, steps from left to right, messages as arrows.
// Drawn on a canvas from the columns of the model; far away it shows how much happened, near by what.

import { Axis } from "./axis.js";
import { colours, fitted, h, seconds } from "./dom.js";
import { Lanes } from "./lanes.js";

const LOWEST = 38;
const HIGHEST = 128;
const RULER = 24;
const NEAR = 2.2;
const CHAIN = 500;
const FONT = "11px system-ui, sans-serif";
const NAMES = [
  "back", "panel", "line", "text", "dim", "accent", "write", "refused", "read", "decision", "fault", "stale", "deviation", "step", "hit", "cursor",
];

// What a step shows first, from the least to the most telling.
export const STEP = 0;
export const MESSAGE = 1;
export const READ = 2;
export const DECISION = 3;
export const WRITE = 4;
export const REFUSED = 5;
export const FAULT = 6;
const COLOUR = ["step", "step", "read", "decision", "write", "refused", "fault"];
const READS = new Set(["informer.read", "client.read", "scheduler.popped", "scheduler.read", "informer.told"]);

export function classOf(model, event) {
  const level = model.text(model.ev.level[event]);
  if (!level) return STEP;
  const name = model.text(model.ev.event[event]);
  if (name === "apiserver.write") return / refused: /.test(model.text(model.ev.said[event])) ? REFUSED : WRITE;
  if (name === "fault" || level === "error") return FAULT;
  if (name === "message") return MESSAGE;
  if (READS.has(name)) return READ;
  if (level === "warning") return REFUSED;
  if (level === "info" && name !== "verdict") return DECISION;
  return STEP;
}

export class Diagram {
  constructor(model, on, window = null) {
    this.model = model;
    this.on = on;
    this.axis = new Axis(model, window);
    this.lanes = new Lanes(model);
    this.step = 0;
    this.selected = 0;
    this.past = null;
    this.hits = null;
    this.classes = new Uint8Array(0);
    this.stale = new Map();
    this.racing = [];
    this.mark = 0;
    this.lane = LOWEST;
    this.bins = new Uint16Array(0);
    this.best = new Uint8Array(0);
    this.canvas = h("canvas", { class: "diagram-canvas", role: "img", tabindex: "0" });
    this.labels = h("div", { class: "lane-labels" });
    this.lanesWanted = h("input", { type: "search", class: "lane-filter", placeholder: "Filter lanes", "aria-label": "Filter lanes by name", spellcheck: "false" });
    this.lanesWanted.addEventListener("input", () => {
      const word = this.lanesWanted.value.trim().toLowerCase();
      this.lanes.hidden = (name) => !name.toLowerCase().includes(word);
      this.lanes.build();
      this.showLabels();
      on.changed();
    });
    this.labelRoom = h("div", {});
    this.labels.append(h("div", { class: "ruler-room" }, this.lanesWanted), this.labelRoom);
    this.spacer = h("div", { class: "lane-room" }, this.canvas);
    this.scroller = h("div", { class: "lanes" }, this.labels, this.spacer);
    this.hint = h("div", { class: "hint", hidden: true });
    this.element = h("div", { class: "diagram" }, this.scroller, this.hint);
    this.listen();
    this.refresh();
  }

  // The model has grown, or lanes changed.
  refresh() {
    const { model } = this;
    const known = this.classes.length;
    if (known < model.stepTime.length) {
      const grown = new Uint8Array(model.stepTime.length);
      grown.set(this.classes);
      this.classes = grown;
      this.classified ??= 0;
      for (let at = this.classified; at < model.count; at += 1) {
        const kind = classOf(model, at);
        const step = model.ev.step[at];
        if (kind > grown[step]) grown[step] = kind;
      }
      this.classified = model.count;
    }
    this.stale.clear();
    this.racing = [];
    for (const each of model.findings.stale ?? []) {
      if (each.used || each.in_story) this.stale.set(each.step, each);
    }
    const { main, others } = model.staleReads();
    for (const each of [...main, ...others]) {
      const mistaken = model.mistaken(each);
      const what = each.overtaken_by > each.step ? "overtaken read" : "stale read";
      const words = each.read === null ? `${what}: found none` : `${what}: version ${each.read}`;
      this.racing.push({ ...each, main: main.includes(each), words: mistaken?.uid ? `${words}, of another object` : words });
    }
    this.story = new Set((model.findings.entries ?? []).map(([step]) => step));
    this.pairs = (model.findings.unordered ?? []).filter((each) => this.story.has(each.first.step) || this.story.has(each.second.step));
    this.lanes.build();
    this.showLabels();
  }

  showLabels() {
    this.labelRoom.replaceChildren(
      ...this.lanes.list.map((lane) => {
        const opens = lane.kind === "group" || (lane.kind === "actor" && lane.tasks > 1);
        const label = h(opens ? "button" : "div", {
          class: `lane-label depth-${lane.depth} ${lane.kind}`,
          title: opens ? `${lane.label}: show or hide its ${lane.kind === "group" ? "nodes" : "tasks"}` : lane.label,
          "aria-expanded": opens ? String(lane.open) : undefined,
          type: opens ? "button" : undefined,
        }, h("span", { class: "fold", text: opens ? (lane.open ? "▾" : "▸") : "" }), h("span", { class: "lane-name", text: lane.label }));
        if (opens) {
          label.addEventListener("click", () => {
            this.lanes.toggle(lane.id);
            this.showLabels();
            this.on.changed();
            [...this.labels.querySelectorAll("button")].find((each) => each.title.startsWith(lane.label.split(" (")[0]))?.focus();
          });
        }
        return label;
      }),
    );
    this.fitLanes();
  }

  // Few lanes are high, so that there is room for words.
  fitLanes() {
    const count = Math.max(1, this.lanes.list.length);
    const room = this.element.clientHeight - RULER;
    this.lane = Math.floor(Math.max(LOWEST, Math.min(HIGHEST, room / count)));
    this.labels.style.setProperty("--lane", `${this.lane}px`);
    this.spacer.style.height = `${RULER + count * this.lane}px`;
  }

  laneOf(step) {
    const task = this.model.stepTask[step];
    return task < 0 ? -1 : this.lanes.ofTask[task];
  }

  // ------------------------------------------------------------------ drawing

  draw() {
    this.fitLanes();
    const box = this.scroller.getBoundingClientRect();
    const width = Math.max(60, box.width - this.labels.offsetWidth - 1);
    const height = Math.max(40, Math.min(box.height, RULER + this.lanes.list.length * this.lane));
    const pen = fitted(this.canvas, width, height);
    const { axis } = this;
    axis.width = width;
    this.top = this.scroller.scrollTop;
    this.width = width;
    this.height = height;
    const paint = (this.paint = colours(NAMES));
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    pen.textBaseline = "middle";
    this.drawLanes(pen, paint);
    const first = Math.max(0, axis.stepAt(-4));
    const last = Math.min(axis.last, axis.stepAt(width + 4) + 1);
    const perStep = width / Math.max(1, last - first);
    this.near = perStep >= NEAR;
    pen.save();
    pen.beginPath();
    pen.rect(0, RULER, width, height - RULER);
    pen.clip();
    if (this.near) this.drawNear(pen, paint, first, last, perStep);
    else this.drawFar(pen, paint, first, last);
    this.drawHits(pen, paint, first, last);
    this.drawLine(pen, axis.x(this.step), paint.cursor, [], 1.5);
    if (this.mark) this.drawLine(pen, axis.x(this.mark), paint.fault, [5, 4], 1.5);
    if (this.near) this.drawStory(pen, paint);
    this.drawRacing(pen, paint);
    this.drawSelected(pen, paint);
    pen.restore();
    this.drawRuler(pen, paint);
    this.canvas.setAttribute("aria-label", `Space-time diagram, steps ${first} to ${last} of ${axis.last}, at step ${this.step}: ${this.model.label(this.step)}`);
  }

  // Marks stand below the middle of a lane, words above them.
  get middle() {
    return Math.min(6 + (this.lane - LOWEST) * 0.35, 16);
  }

  y(lane) {
    return RULER + lane * this.lane + this.lane * 0.5 - this.top + this.middle;
  }

  drawLanes(pen, paint) {
    pen.lineWidth = 1;
    this.lanes.list.forEach((lane, at) => {
      const y = this.y(at);
      if (y < 0 || y > this.height + this.lane) return;
      pen.strokeStyle = paint.line;
      pen.beginPath();
      pen.moveTo(0, Math.round(y) + 0.5);
      pen.lineTo(this.width, Math.round(y) + 0.5);
      pen.stroke();
    });
  }

  drawRuler(pen, paint) {
    pen.fillStyle = paint.panel;
    pen.fillRect(0, 0, this.width, RULER);
    pen.strokeStyle = paint.line;
    pen.beginPath();
    pen.moveTo(0, RULER - 0.5);
    pen.lineTo(this.width, RULER - 0.5);
    pen.stroke();
    pen.fillStyle = paint.dim;
    pen.textAlign = "left";
    for (const [x, value] of this.axis.ticks()) {
      pen.fillRect(Math.round(x), RULER - 6, 1, 6);
      pen.fillText(this.axis.mode === "steps" ? value.toLocaleString("en") : seconds(value), x + 4, RULER / 2);
    }
  }

  drawLine(pen, x, colour, dash, width) {
    if (x < -2 || x > this.width + 2) return;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(Math.round(x) + 0.5, RULER);
    pen.lineTo(Math.round(x) + 0.5, this.height);
    pen.stroke();
    pen.setLineDash([]);
  }

  // Many steps to a pixel: how many there were, and the most telling of them.
  drawFar(pen, paint, first, last) {
    const { axis, model, lanes, classes, past } = this;
    const columns = Math.ceil(this.width) + 1;
    const count = lanes.list.length * columns;
    if (this.bins.length < count) {
      this.bins = new Uint16Array(count);
      this.best = new Uint8Array(count);
    }
    const { bins, best } = this;
    bins.fill(0, 0, count);
    best.fill(0, 0, count);
    const scale = this.width / (axis.to - axis.from);
    const bySteps = axis.mode === "steps";
    const { stepTask } = model;
    const { ofTask } = lanes;
    for (let step = Math.max(1, first); step <= last; step += 1) {
      const task = stepTask[step];
      const lane = task < 0 ? -1 : ofTask[task];
      if (lane < 0) continue;
      const x = (bySteps ? (step - axis.from) * scale : axis.x(step)) | 0;
      if (x < 0 || x >= columns) continue;
      const at = lane * columns + x;
      bins[at] += 1;
      let kind = classes[step];
      if (past && past.has(step)) kind = 7;
      if (kind > best[at]) best[at] = kind;
    }
    const ink = [...COLOUR.map((name) => paint[name]), paint.accent];
    for (let lane = 0; lane < lanes.list.length; lane += 1) {
      const y = this.y(lane);
      if (y < RULER - this.lane || y > this.height + this.lane) continue;
      for (let x = 0; x < columns; x += 1) {
        const many = bins[lane * columns + x];
        if (!many) continue;
        const kind = best[lane * columns + x];
        const tall = Math.min(this.lane - 12, 5 + (this.lane / 9) * Math.log2(1 + many));
        pen.globalAlpha = past && kind !== 7 ? 0.3 : 1;
        pen.fillStyle = ink[STEP];
        pen.fillRect(x, y - tall / 2, 1, tall);
        if (kind > MESSAGE) {
          pen.fillStyle = ink[kind];
          pen.fillRect(x, y - tall / 2, 1, Math.max(4, tall * 0.55));
        }
      }
    }
    pen.globalAlpha = 1;
  }

  drawNear(pen, paint, first, last, perStep) {
    const { model, axis, past } = this;
    const { received, stepCause, stepTask } = model;
    pen.lineWidth = 1;
    for (let step = Math.max(1, first); step <= Math.min(last + 40, axis.last); step += 1) {
      const lane = this.laneOf(step);
      if (lane < 0) continue;
      const causes = received.get(step) ?? [];
      for (const cause of causes) this.arrow(pen, paint, cause, step, perStep, true);
      const woken = stepCause[step];
      if (woken && !causes.length && stepTask[woken] >= 0 && model.taskActors[stepTask[woken]] !== model.taskActors[stepTask[step]]) {
        this.arrow(pen, paint, woken, step, perStep, false);
      }
    }
    const radius = Math.max(2, Math.min(4.5, perStep / 2.6));
    for (let step = Math.max(1, first); step <= last; step += 1) {
      const lane = this.laneOf(step);
      if (lane < 0) continue;
      const [x, y] = [axis.x(step), this.y(lane)];
      if (y < -this.lane || y > this.height + this.lane) continue;
      const within = !past || past.has(step);
      pen.globalAlpha = within ? 1 : 0.28;
      this.drawMark(pen, paint, step, x, y, radius);
      const chosen = model.chosenAt.get(step);
      if (chosen && perStep > 5) {
        pen.strokeStyle = paint.deviation;
        pen.lineWidth = 1.5;
        pen.beginPath();
        pen.moveTo(x - 3, y + radius + 6);
        pen.lineTo(x, y + radius + 3);
        pen.lineTo(x + 3, y + radius + 6);
        pen.stroke();
        pen.lineWidth = 1;
      }
    }
    pen.globalAlpha = 1;
    if (perStep > 4) this.drawWords(pen, paint, first, last);
  }

  drawMark(pen, paint, step, x, y, radius) {
    const kind = this.classes[step];
    pen.fillStyle = pen.strokeStyle = paint[COLOUR[kind]];
    pen.beginPath();
    if (kind === WRITE) {
      const r = radius + 1;
      pen.moveTo(x, y - r);
      pen.lineTo(x + r, y);
      pen.lineTo(x, y + r);
      pen.lineTo(x - r, y);
      pen.closePath();
      pen.fill();
    } else if (kind === REFUSED) {
      pen.lineWidth = 2;
      pen.moveTo(x - radius, y - radius);
      pen.lineTo(x + radius, y + radius);
      pen.moveTo(x + radius, y - radius);
      pen.lineTo(x - radius, y + radius);
      pen.stroke();
      pen.lineWidth = 1;
    } else if (kind === FAULT) {
      pen.moveTo(x, y - radius - 2);
      pen.lineTo(x + radius + 2, y + radius);
      pen.lineTo(x - radius - 2, y + radius);
      pen.closePath();
      pen.fill();
    } else if (kind === DECISION) {
      pen.rect(x - radius, y - radius, radius * 2, radius * 2);
      pen.fill();
    } else if (kind === READ) {
      pen.arc(x, y, radius, 0, 7);
      pen.fillStyle = paint.back;
      pen.fill();
      pen.lineWidth = 1.7;
      pen.stroke();
      pen.lineWidth = 1;
    } else {
      pen.arc(x, y, Math.max(1.5, radius - 1.2), 0, 7);
      pen.fill();
    }
  }

  arrow(pen, paint, from, to, perStep, isMessage) {
    const lane = this.laneOf(from);
    const other = this.laneOf(to);
    if (lane < 0 || other < 0 || lane === other) return;
    const [x1, y1, x2, y2] = [this.axis.x(from), this.y(lane), this.axis.x(to), this.y(other)];
    if ((x1 < 0 && x2 < 0) || (x1 > this.width && x2 > this.width)) return;
    const lit = this.past ? this.past.has(to) && this.past.has(from) : false;
    pen.globalAlpha = lit ? 1 : this.past ? 0.1 : isMessage ? 0.5 : 0.28;
    pen.strokeStyle = pen.fillStyle = lit ? paint.accent : paint.dim;
    pen.lineWidth = lit ? 1.8 : 1;
    if (!isMessage) pen.setLineDash([3, 3]);
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
    pen.setLineDash([]);
    if (perStep > 3.5 || lit) {
      const angle = Math.atan2(y2 - y1, x2 - x1);
      const [ex, ey] = [x2 - 5 * Math.cos(angle), y2 - 5 * Math.sin(angle)];
      pen.beginPath();
      pen.moveTo(ex, ey);
      pen.lineTo(ex - 6 * Math.cos(angle - 0.4), ey - 6 * Math.sin(angle - 0.4));
      pen.lineTo(ex - 6 * Math.cos(angle + 0.4), ey - 6 * Math.sin(angle + 0.4));
      pen.closePath();
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
  }

  // What steps did, where there is room for words.
  drawWords(pen, paint, first, last) {
    const { model, classes, axis } = this;
    const byLane = new Map();
    for (let step = Math.max(1, first); step <= last; step += 1) {
      if (classes[step] < READ && !model.sent.has(step)) continue;
      const lane = this.laneOf(step);
      if (lane < 0) continue;
      if (!byLane.has(lane)) byLane.set(lane, []);
      byLane.get(lane).push(step);
    }
    pen.textAlign = "left";
    const lines = Math.max(1, Math.floor((this.lane * 0.5 + this.middle - 14) / 13));
    for (const [lane, steps] of byLane) {
      const y = this.y(lane) - 14;
      if (y < RULER || y > this.height + this.lane) continue;
      let free = -Infinity;
      steps.forEach((step, at) => {
        const x = axis.x(step);
        const later = steps.slice(at + 1).find((each) => classes[each] > READ || classes[step] === READ);
        const room = Math.min(170, (later ? axis.x(later) : this.width + 60) - x - 5);
        if (x < free || room < 62) return;
        const words = this.words(step);
        if (!words || this.racing.some((each) => each.step === step || each.overtaken_by === step)) return;
        const shown = wrapped(pen, words, room, lines);
        if (!shown.length) return;
        pen.globalAlpha = this.past && !this.past.has(step) ? 0.3 : 1;
        pen.fillStyle = this.stale.has(step) ? paint.stale : paint.dim;
        shown.forEach((line, number) => pen.fillText(line, x - 3, y - (shown.length - 1 - number) * 13));
        free = x + Math.max(...shown.map((line) => pen.measureText(line).width)) + 4;
      });
    }
    pen.globalAlpha = 1;
  }

  // What a step did; of one that only sent something, what it sent.
  words(step) {
    const { model } = this;
    if (this.classes[step] < READ) return `${(model.sent.get(step) ?? []).slice(0, 2).join(", ")} →`;
    return model.told(step).replaceAll("Pod/default/", "").replaceAll("heard of ", "told ");
  }

  drawHits(pen, paint, first, last) {
    if (!this.hits) return;
    pen.fillStyle = paint.hit;
    for (let step = Math.max(1, first); step <= last; step += 1) {
      if (!this.hits[step]) continue;
      const lane = this.laneOf(step);
      if (lane < 0) continue;
      pen.fillRect(this.axis.x(step) - 1.5, this.y(lane) + 9, 3, 5);
    }
  }

  // The steps that tell a violation, and pairs of writes of which the second writer had not heard of the first.
  drawStory(pen, paint) {
    const { axis } = this;
    pen.strokeStyle = paint.stale;
    for (const step of this.story) {
      const lane = this.laneOf(step);
      if (lane >= 0) this.ring(pen, axis.x(step), this.y(lane), 7.5, 1.2);
    }
    pen.strokeStyle = paint.deviation;
    pen.lineWidth = 1.4;
    pen.setLineDash([2, 3]);
    for (const each of this.pairs) {
      const lanes = [each.first.step, each.second.step].map((step) => this.laneOf(step));
      if (lanes[0] < 0 || lanes[1] < 0) continue;
      const [x1, x2] = [axis.x(each.first.step), axis.x(each.second.step)];
      const [y1, y2] = lanes.map((lane) => this.y(lane));
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.quadraticCurveTo((x1 + x2) / 2, Math.max(y1, y2) + this.lane * 0.55, x2, y2);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.lineWidth = 1;
  }

  // Stale reads that a write rests on, with the write that overtook them; those that tell no violation only from near by.
  drawRacing(pen, paint) {
    const { axis } = this;
    for (const each of this.racing) {
      if (!each.main && !this.near) continue;
      const lane = this.laneOf(each.step);
      if (lane < 0) continue;
      const [x, y] = [axis.x(each.step), this.y(lane)];
      const other = each.overtaken_by ? this.laneOf(each.overtaken_by) : -1;
      pen.strokeStyle = pen.fillStyle = each.main ? paint.stale : paint.deviation;
      if (other >= 0 && (each.main || axis.x(each.overtaken_by) > 0 && x < this.width)) {
        const [x0, y0] = [axis.x(each.overtaken_by), this.y(other)];
        pen.setLineDash([6, 4]);
        pen.lineWidth = 1.8;
        pen.beginPath();
        pen.moveTo(x0, y0);
        pen.lineTo(x, y);
        pen.stroke();
        pen.setLineDash([]);
        this.ring(pen, x0, y0, 8);
        this.flag(pen, paint, x0, y0 + 19, `version ${each.newest} written`, each.main);
      }
      this.ring(pen, x, y, 9);
      this.flag(pen, paint, x, y + 19, each.words, each.main);
    }
    pen.lineWidth = 1;
  }

  ring(pen, x, y, radius, wide = 2.2) {
    pen.lineWidth = wide;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.stroke();
  }

  flag(pen, paint, x, y, words, main) {
    pen.font = `600 ${FONT}`;
    const wide = pen.measureText(words).width + 10;
    const left = Math.max(2, Math.min(x - wide / 2, this.width - wide - 2));
    if (x > -40 && x < this.width + 40) {
      pen.fillStyle = main ? paint.stale : paint.deviation;
      pen.beginPath();
      pen.roundRect(left, y - 8, wide, 16, 4);
      pen.fill();
      pen.fillStyle = paint.back;
      pen.textAlign = "left";
      pen.fillText(words, left + 5, y + 0.5);
    }
    pen.font = FONT;
    pen.fillStyle = main ? paint.stale : paint.deviation;
  }

  drawSelected(pen, paint) {
    if (!this.selected) return;
    const { model, axis } = this;
    if (this.past && !this.near) {  // from afar only the chain that decided it
      let step = this.selected;
      for (let hop = 0; hop < CHAIN && step > 0; hop += 1) {
        const [cause] = model.causes(step);
        if (cause === undefined) break;
        this.arrow(pen, paint, cause, step, 1, true);
        step = cause;
      }
    }
    const lane = this.laneOf(this.selected);
    if (lane < 0) return;
    pen.strokeStyle = paint.accent;
    this.ring(pen, axis.x(this.selected), this.y(lane), 7);
    pen.lineWidth = 1;
  }

  // ------------------------------------------------------------------ hands

  nearest(x, y) {
    const lane = Math.round((y - RULER - this.lane / 2 - this.middle + this.top) / this.lane);
    const around = this.axis.stepAt(x);
    let best = 0;
    let distance = Infinity;
    const reach = this.near ? 60 : 4000;
    for (let step = Math.max(1, around - reach); step <= Math.min(this.axis.last, around + reach); step += 1) {
      if (this.laneOf(step) !== lane) continue;
      const away = Math.abs(this.axis.x(step) - x) - (this.near ? 0 : this.classes[step] * 0.5);
      if (away < distance) [best, distance] = [step, away];
    }
    return distance < 14 ? best : 0;
  }

  listen() {
    const { canvas, axis } = this;
    let held = null;
    let pinched = 0;
    const pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event.offsetX);
      held = { x: event.offsetX, moved: 0 };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) {
        this.showHint(event);
        return;
      }
      if (pointers.size === 2) {
        pointers.set(event.pointerId, event.offsetX);
        const [a, b] = [...pointers.values()];
        const wide = Math.abs(a - b);
        if (pinched) axis.zoom(pinched / Math.max(1, wide), (a + b) / 2);
        pinched = wide;
        held.moved = 99;
        this.on.changed();
        return;
      }
      const by = held.x - event.offsetX;
      held.moved += Math.abs(by);
      if (held.moved > 4) {
        axis.pan(by);
        held.x = event.offsetX;
        this.on.changed();
      }
    });
    const letGo = (event) => {
      pointers.delete(event.pointerId);
      pinched = 0;
      if (held && held.moved <= 4 && event.type === "pointerup") {
        const step = this.nearest(event.offsetX, event.offsetY);
        if (step) this.on.select(step);
        else this.on.go(axis.stepAt(event.offsetX));
      }
      if (!pointers.size) held = null;
    };
    canvas.addEventListener("pointerup", letGo);
    canvas.addEventListener("pointercancel", letGo);
    canvas.addEventListener("pointerleave", () => { this.hint.hidden = true; });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX) && this.scroller.scrollHeight <= this.scroller.clientHeight + 1) {
        axis.zoom(Math.exp(event.deltaY * 0.0016), event.offsetX);
      } else if (Math.abs(event.deltaX) > 0 || event.shiftKey) {
        axis.pan(event.deltaX || event.deltaY);
      } else {
        return;
      }
      event.preventDefault();
      this.on.changed();
    }, { passive: false });
    this.scroller.addEventListener("scroll", () => this.on.changed());
  }

  showHint(event) {
    const step = this.nearest(event.offsetX, event.offsetY);
    this.canvas.style.cursor = step ? "pointer" : "grab";
    this.hint.hidden = !step;
    if (!step) return;
    const { model } = this;
    const words = model.told(step) || model.text(model.stepPoint[step]);
    this.hint.textContent = `step ${step} · ${model.label(step)} · ${seconds(model.stepTime[step])}\n${words}`;
    const left = this.labels.offsetWidth + event.offsetX + 14;
    this.hint.style.left = `${Math.min(left, this.element.clientWidth - 260)}px`;
    this.hint.style.top = `${Math.min(event.offsetY + 16, this.element.clientHeight - 60)}px`;
  }
}

// Words in at most so many lines of a width, the last one cut where they go on; [] where none would fit.
function wrapped(pen, words, room, most) {
  const lines = [];
  let line = "";
  for (const word of words.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (pen.measureText(longer).width <= room) {
      line = longer;
      continue;
    }
    if (lines.length === most - 1) {
      lines.push(cut(pen, longer, room));
      return lines.filter(Boolean);
    }
    if (line) lines.push(line);
    line = pen.measureText(word).width <= room ? word : cut(pen, word, room);
    if (!line) break;
  }
  if (line) lines.push(line);
  return lines;
}

function cut(pen, words, room) {
  let most = Math.floor(room / 5);
  while (most > 3 && pen.measureText(`${words.slice(0, most)}…`).width > room) most -= 1;
  return most > 3 ? `${words.slice(0, most)}…` : "";
}
