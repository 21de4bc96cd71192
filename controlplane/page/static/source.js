// Where a run comes from: embedded in the page, or from a server that is asked for what came since a step.
// A source has `name`, `load()` and, if it goes on, `more(step, ...)`; both answer with parts of a model.

export const FORMAT = 1;

async function unpacked(element) {
  const text = element.textContent.trim();
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// One or two runs that stand in the page, and how they differ.
export class EmbeddedSource {
  constructor(elements, differing) {
    this.elements = elements;
    this.differing = differing;
    this.live = false;
  }

  async load() {
    return Promise.all(this.elements.map(unpacked));
  }

  async difference() {
    return this.differing ? unpacked(this.differing) : null;
  }
}

// A run that goes on: `address` answers `?since=STEP` with the part of the model after that step.
export class HttpSource {
  constructor(address, headers = {}) {
    this.address = address;
    this.headers = headers;
    this.live = true;
  }

  async load() {
    return [await this.more(-1, 0, 0)];
  }

  // What came after a step, for who has so many texts and tasks.
  async more(step, texts, tasks) {
    const answer = await fetch(`${this.address}?since=${step}&texts=${texts}&tasks=${tasks}`, { headers: this.headers });
    if (!answer.ok) throw new Error(`${this.address}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  async difference() {
    return null;
  }
}

export function embedded(page) {
  const found = [...page.querySelectorAll('script[data-part="run"]')];
  const differing = page.querySelector('script[data-part="difference"]');
  return found.length ? new EmbeddedSource(found, differing) : null;
}
