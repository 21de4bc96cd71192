// The foot of the page: a minimap of the whole run, and a slider over its steps.

import { classOf, FAULT, READ, REFUSED, WRITE } from "./diagram.js";
import { colours, fitted, h, seconds } from "./dom.js";

const TALL = 44;

export class Timeline {
  constructor(on) {
    this.on = on;
    this.canvas = h("canvas", { class: "minimap", "aria-hidden": "true" });
    this.slider = h("input", { type: "range", min: "0", step: "1", value: "0", class: "slider", "aria-label": "Step" });
    this.back = h("button", { type: "button", class: "icon", "aria-label": "One step back", title: "One step back (←)", text: "‹" });
    this.play = h("button", { type: "button", class: "icon", "aria-label": "Play", "aria-pressed": "false", title: "Play or pause (space)", text: "▶" });
    this.next = h("button", { type: "button", class: "icon", "aria-label": "One step on", title: "One step on (→)", text: "›" });
    this.where = h("output", { class: "where", "aria-live": "off" });
    this.room = h("div", { class: "track" }, this.canvas, this.slider);
    this.element = h("footer", { class: "timeline" }, h("div", { class: "buttons" }, this.back, this.play, this.next), this.room, this.where);
    this.slider.addEventListener("input", () => on.go(this.stepAt(Number(this.slider.value))));
    this.back.addEventListener("click", () => on.by(-1));
    this.next.addEventListener("click", () => on.by(1));
    this.play.addEventListener("click", () => on.play());
    let held = false;
    const drag = (event) => on.window((event.offsetX / this.width) * (this.axis.end || 1));
    this.canvas.addEventListener("pointerdown", (event) => {
      held = true;
      this.canvas.setPointerCapture(event.pointerId);
      drag(event);
    });
    this.canvas.addEventListener("pointermove", (event) => held && drag(event));
    this.canvas.addEventListener("pointerup", () => { held = false; });
    this.canvas.addEventListener("pointercancel", () => { held = false; });
  }

  // In time the slider counts a thousandth of the run, as moments are far apart and steps are not.
  get fine() {
    return 2000;
  }

  stepAt(value) {
    const { axis, model } = this;
    if (axis.mode === "steps") return value;
    let low = 0;
    let high = model.stepTime.length - 1;
    const wanted = (value / this.fine) * axis.end;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (model.stepTime[middle] <= wanted) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  valueOf(step) {
    if (this.axis.mode === "steps") return step;
    return Math.round((this.model.stepTime[step] / this.axis.end) * this.fine);
  }

  show(model, axis, step, hits, mark) {
    this.model = model;
    this.axis = axis;
    const box = this.room.getBoundingClientRect();
    this.width = Math.max(40, box.width);
    const pen = fitted(this.canvas, this.width, TALL);
    const paint = colours(["panel", "line", "step", "write", "refused", "fault", "stale", "accent", "hit", "cursor", "read"]);
    this.picture(model, axis, paint);
    pen.clearRect(0, 0, this.width, TALL);
    pen.drawImage(this.cached, 0, 0, this.width, TALL);
    const x = (value) => (Math.max(0, Math.min(axis.end, value)) / axis.end) * this.width;
    if (hits) {
      pen.fillStyle = paint.hit;
      for (let at = 1; at < hits.length; at += 1) if (hits[at]) pen.fillRect(x(axis.value(at)) - 0.5, TALL - 6, 1.5, 6);
    }
    pen.fillStyle = paint.stale;
    for (const each of model.staleReads().main) {
      pen.fillRect(x(axis.value(each.step)) - 1, 0, 2, TALL);
    }
    const [a, b] = [x(axis.from), x(axis.to)];
    pen.strokeStyle = paint.accent;
    pen.lineWidth = 1;
    pen.strokeRect(a + 0.5, 0.5, Math.max(3, b - a) - 1, TALL - 1);
    pen.globalAlpha = 0.08;
    pen.fillStyle = paint.accent;
    pen.fillRect(a, 0, Math.max(3, b - a), TALL);
    pen.globalAlpha = 1;
    pen.fillStyle = paint.cursor;
    pen.fillRect(x(axis.value(step)) - 0.75, 0, 1.5, TALL);
    if (mark) {
      pen.fillStyle = paint.fault;
      pen.fillRect(x(axis.value(mark)) - 1, 0, 2, TALL);
    }
    this.slider.max = String(axis.mode === "steps" ? axis.last : this.fine);
    this.slider.value = String(this.valueOf(step));
    const words = `step ${step.toLocaleString("en")} of ${axis.last.toLocaleString("en")}, ${seconds(model.stepTime[step] ?? 0)}`;
    this.slider.setAttribute("aria-valuetext", words);
    this.where.textContent = words;
  }

  // What happened how often, drawn once for a width and a mode.
  picture(model, axis, paint) {
    const name = `${model.revision} ${axis.mode} ${this.width} ${paint.panel}`;
    if (this.made === name && this.of === model) return;
    this.made = name;
    this.of = model;
    this.cached = document.createElement("canvas");
    const pen = fitted(this.cached, this.width, TALL);
    const columns = Math.ceil(this.width);
    const counts = new Uint32Array(columns);
    const best = new Uint8Array(columns);
    for (let at = 0; at < model.count; at += 1) {
      const step = model.ev.step[at];
      const x = Math.min(columns - 1, Math.floor((axis.value(step) / axis.end) * columns));
      counts[x] += 1;
      const kind = classOf(model, at);
      if (kind > best[x]) best[x] = kind;
    }
    let most = 1;
    for (const count of counts) most = Math.max(most, count);
    for (let x = 0; x < columns; x += 1) {
      if (!counts[x]) continue;
      const tall = Math.max(2, (Math.log2(1 + counts[x]) / Math.log2(1 + most)) * (TALL - 12));
      pen.fillStyle = paint.step;
      pen.fillRect(x, TALL - 6 - tall, 1, tall);
      const ink = { [FAULT]: paint.fault, [REFUSED]: paint.refused, [WRITE]: paint.write, [READ]: paint.read }[best[x]];
      if (ink) {
        pen.fillStyle = ink;
        pen.fillRect(x, TALL - 6 - tall, 1, Math.max(3, tall * 0.4));
      }
    }
  }

  playing(on) {
    this.play.textContent = on ? "❚❚" : "▶";
    this.play.setAttribute("aria-pressed", String(on));
    this.play.setAttribute("aria-label", on ? "Pause" : "Play");
  }
}
