// The lanes of a diagram: an actor each, its tasks on demand; many nodes share one until it is opened.

const MANY = 8;
const MOST = 150;

export class Lanes {
  constructor(model) {
    this.model = model;
    this.open = new Set();
    this.hidden = () => false;
    this.order = "appearance";
    this.list = [];
    this.ofTask = new Int32Array(0);
    this.build();
  }

  build() {
    const { model, list } = this;
    list.length = 0;
    this.ofTask = new Int32Array(model.tasks.length).fill(-1);
    const machines = [];
    const others = [];
    const nodes = new Set(model.texts.filter((text) => text.startsWith("Node/")));
    model.actors.forEach((actor, number) => {
      if (this.hidden(actor.name)) return;
      if (actor.name === "world" && actor.steps === 0) return;
      if (nodes.has(`Node/${actor.name}`)) machines.push(number);
      else others.push(number);
    });
    for (const number of others) this.addActor(number);
    if (machines.length <= MANY) {
      for (const number of machines) this.addActor(number);
      return;
    }
    const opened = this.open.has("nodes");
    const group = { id: "nodes", label: `nodes (${machines.length})`, kind: "group", open: opened, depth: 0 };
    const at = list.push(group) - 1;
    const busiest = machines.slice().sort((a, b) => model.actors[b].steps - model.actors[a].steps);
    const shown = new Set(opened ? busiest.slice(0, MOST) : []);
    if (opened && machines.length > MOST) group.label = `nodes (${machines.length}, ${MOST} busiest below)`;
    for (const number of machines) {
      if (shown.has(number)) this.addActor(number, 1);
      else for (const task of model.actors[number].tasks) this.ofTask[task] = at;
    }
  }

  addActor(number, depth = 0) {
    const { model, list } = this;
    const actor = model.actors[number];
    const opened = this.open.has(actor.name);
    const at = list.push({ id: actor.name, label: actor.name, kind: "actor", open: opened, depth, tasks: actor.tasks.length }) - 1;
    const byName = new Map();
    for (const task of actor.tasks) {
      if (!opened) {
        this.ofTask[task] = at;
        continue;
      }
      const name = model.tasks[task].task;
      if (!byName.has(name)) {
        byName.set(name, list.push({ id: `${actor.name}/${name}`, label: name, kind: "task", depth: depth + 1 }) - 1);
      }
      this.ofTask[task] = byName.get(name);
    }
  }

  toggle(id) {
    if (this.open.has(id)) this.open.delete(id);
    else this.open.add(id);
    this.build();
  }
}
