// Search over all events: words that all must stand somewhere in an event, `actor:`, `event:`, `object:` and
// `level:` for one field. Texts stand once in the model, so each is looked at once however often it is used.

const LEVELS = ["trace", "debug", "info", "warning", "error"];
const FIELDS = { actor: "actor", task: "actor", event: "event", object: "obj", obj: "obj", uid: "uid", level: "level" };

export function parsed(query) {
  return query.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const at = word.indexOf(":");
    const field = at > 0 ? FIELDS[word.slice(0, at)] : undefined;
    return field ? { field, word: word.slice(at + 1) } : { field: "", word };
  });
}

// Numbers of the events that match, at most `most`; and how many there are in all.
export function search(model, query, most = Infinity) {
  const terms = parsed(query);
  const found = { events: [], total: 0 };
  if (!terms.length) return found;
  const tests = terms.map((term) => tester(model, term));
  for (let at = 0; at < model.count; at += 1) {
    if (tests.every((test) => test(at))) {
      found.total += 1;
      if (found.events.length < most) found.events.push(at);
    }
  }
  return found;
}

function tester(model, { field, word }) {
  const { ev } = model;
  if (field === "level") {
    const least = LEVELS.indexOf(word);
    const levels = model.texts.map((text) => LEVELS.indexOf(text));
    return (at) => (ev.level[at] ? levels[ev.level[at]] : 0) >= least;
  }
  const tasks = model.tasks.map((task) => task.label.toLowerCase().includes(word));
  if (field === "actor") return (at) => tasks[ev.task[at]];
  const has = new Uint8Array(model.texts.length);
  model.texts.forEach((text, number) => { if (number && text.toLowerCase().includes(word)) has[number] = 1; });
  if (field) return (at) => has[ev[field][at]] === 1;
  const version = /^\d+$/.test(word) ? Number(word) : -1;
  return (at) => has[ev.said[at]] === 1 || has[ev.obj[at]] === 1 || has[ev.event[at]] === 1 || has[ev.uid[at]] === 1
    || has[ev.data[at]] === 1 || tasks[ev.task[at]] || ev.step[at] === version || (ev.rv[at] === version && version > 0);
}
