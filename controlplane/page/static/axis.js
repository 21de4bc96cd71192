// Where a step stands on a line: by its number, or by virtual time with the steps of one instant side by side.

import { lastNotAbove } from "./model.js";

const APART = 7;
const LAST = 0.12;

export class Axis {
  // `model.stepTime` says when each step was; `mode` is "steps" or "time". Axes that share a window move together.
  constructor(model, window = null) {
    this.model = model;
    this.window = window ?? { mode: "steps", from: 0, to: 1 };
    this.width = 100;
    if (!window) this.fit();
  }

  get mode() {
    return this.window.mode;
  }

  set mode(mode) {
    this.window.mode = mode;
  }

  get from() {
    return this.window.from;
  }

  set from(value) {
    this.window.from = value;
  }

  get to() {
    return this.window.to;
  }

  set to(value) {
    this.window.to = value;
  }

  get last() {
    return Math.max(1, this.model.stepTime.length - 1);
  }

  get end() {
    return this.mode === "steps" ? this.last : Math.max(1, this.model.stepTime[this.last]);
  }

  fit() {
    this.from = -0.015 * this.end;
    this.to = this.mode === "steps" ? this.end * 1.025 + 1 : this.end * (1.03 + LAST);
  }

  setMode(mode, around) {
    const span = this.width > 0 ? this.spanOfSteps(around) : null;
    this.mode = mode;
    this.fit();
    if (span && span < this.last * 0.8) this.around(around, span);
  }

  spanOfSteps() {
    return this.stepAt(this.width) - this.stepAt(0);
  }

  // Show so many steps around one.
  around(step, steps) {
    const first = Math.max(0, Math.round(step - steps / 2));
    const last = Math.min(this.last, Math.round(step + steps / 2));
    this.show(first, last);
  }

  show(first, last) {
    const [a, b] = [this.value(first), this.value(last)];
    const room = Math.max((b - a) * 0.06, this.mode === "steps" ? 1 : Math.max(1, this.end * 1e-6));
    this.from = a - room;
    this.to = b + room * 1.6;
  }

  value(step) {
    return this.mode === "steps" ? step : this.model.stepTime[Math.max(0, Math.min(step, this.last))];
  }

  // For every step the number of its instant; for every instant its first step.
  byInstant() {
    const time = this.model.stepTime;
    if (this.instants && this.instants.known === time.length) return this.instants;
    const of = new Int32Array(time.length);
    const first = [0];
    for (let step = 1; step < time.length; step += 1) {
      if (time[step] !== time[step - 1]) first.push(step);
      of[step] = first.length - 1;
    }
    this.instants = { of, first, known: time.length };
    return this.instants;
  }

  x(step) {
    const scale = this.width / (this.to - this.from);
    if (this.mode === "steps") return (step - this.from) * scale;
    const time = this.model.stepTime;
    step = Math.max(0, Math.min(step, time.length - 1));
    const { of, first } = this.byInstant();
    const instant = of[step];
    const start = first[instant];
    const next = first[instant + 1] ?? time.length;
    const room = next < time.length ? (time[next] - time[start]) * scale : this.width * LAST;
    return (time[step] - this.from) * scale + (step - start) * Math.min(APART, (room * 0.9) / (next - start));
  }

  // The last step that is not right of `x`.
  stepAt(x) {
    let low = 0;
    let high = this.last + 1;
    if (this.mode === "steps") {
      return Math.max(0, Math.min(this.last, Math.round(this.from + (x * (this.to - this.from)) / this.width)));
    }
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x(middle) <= x) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  zoom(factor, at) {
    const value = this.from + (at / this.width) * (this.to - this.from);
    const least = this.mode === "steps" ? 8 : Math.max(1000, this.end * 1e-7);
    const most = this.end * 1.3 + 4;
    const span = Math.max(least, Math.min(most, (this.to - this.from) * factor));
    this.from = value - (at / this.width) * span;
    this.to = this.from + span;
    this.keepInside();
  }

  pan(pixels) {
    const by = (pixels / this.width) * (this.to - this.from);
    this.from += by;
    this.to += by;
    this.keepInside();
  }

  keepInside() {
    const span = this.to - this.from;
    const [least, most] = [-0.3 * span, this.end + 0.6 * span];
    if (this.from < least) [this.from, this.to] = [least, least + span];
    if (this.to > most && this.to - span > least) [this.from, this.to] = [Math.max(least, most - span), Math.max(least, most - span) + span];
  }

  // Bring a step into view without changing the scale, if it is not there.
  reveal(step) {
    const x = this.x(step);
    if (x < 4 || x > this.width - 4) this.pan(x - this.width / 2);
  }

  // Round values for a ruler: [x, text].
  ticks() {
    const room = 90;
    const span = this.to - this.from;
    const rough = (span * room) / this.width;
    const power = 10 ** Math.floor(Math.log10(rough));
    let gap = power;
    for (const factor of [1, 2, 5, 10]) if (power * factor >= rough) { gap = power * factor; break; }
    if (this.mode === "steps") gap = Math.max(1, gap);
    const found = [];
    for (let value = Math.ceil(Math.max(0, this.from) / gap) * gap; value <= Math.min(this.to, this.end); value += gap) {
      found.push([((value - this.from) * this.width) / span, value]);
    }
    return found;
  }
}

export function instantOf(model, t) {
  return Math.max(0, lastNotAbove(model.stepTime, t));
}
