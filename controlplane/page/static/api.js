// The server that a live page came from. Every request carries the token, and nothing else does.

const KEPT = "controlplane-token";
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const MANAGER = "controlplane-ui";

// The token behind the # of the address, or the one that this tab had before; out of sight from then on.
export function tokenOf(place, history, storage) {
  const found = /^#token=(.+)$/.exec(place.hash);
  if (found) {
    storage.setItem(KEPT, decodeURIComponent(found[1]));
    history.replaceState(null, "", place.pathname + place.search);
  }
  return storage.getItem(KEPT) ?? "";
}

export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class Server {
  constructor(token, root = "/controlplane/") {
    this.root = root;
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.kinds = null;
  }

  // The answer's JSON. Throws a Refusal with the server's own words.
  async ask(method, path, body, type = "application/json", accept = "application/json") {
    const headers = { ...this.headers, Accept: accept };
    if (body !== undefined) headers["Content-Type"] = type;
    const sent = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
    const answer = await fetch(path, { method, headers, body: sent });
    const text = await answer.text();
    if (!answer.ok) throw new Refusal(answer.status, said(text) || `${method} ${path}: ${answer.status}`);
    return text ? JSON.parse(text) : null;
  }

  // ---- time

  time() {
    return this.ask("GET", `${this.root}time`);
  }

  setTime(action) {
    return this.ask("POST", `${this.root}time`, action);
  }

  // ---- objects, through the API that kubectl uses

  // Objects of YAML or JSON text, as trees.
  parsed(text) {
    return this.ask("POST", `${this.root}ui/json`, text, "application/yaml");
  }

  // The address of an object, or of where such are created (`name` is empty).
  async path(tree, name = tree.metadata?.name ?? "") {
    let found = this.kinds?.get(`${tree.apiVersion}/${tree.kind}`);
    if (!found) {
      this.kinds = await this.discovered(); // again: a definition may have come since
      found = this.kinds.get(`${tree.apiVersion}/${tree.kind}`);
    }
    if (!found) throw new Refusal(404, `no kind ${tree.kind} is served in ${tree.apiVersion}`);
    const root = tree.apiVersion.includes("/") ? `/apis/${tree.apiVersion}` : `/api/${tree.apiVersion}`;
    const namespace = encodeURIComponent(tree.metadata?.namespace || "default");
    const within = found.namespaced ? `/namespaces/${namespace}` : "";
    return `${root}${within}/${found.resource}${name ? `/${encodeURIComponent(name)}` : ""}`;
  }

  async discovered() {
    const kinds = new Map();
    for (const root of ["/api", "/apis"]) {
      const groups = await this.ask("GET", root, undefined, "", DISCOVERY);
      for (const group of groups.items) {
        for (const version of group.versions) {
          const name = group.metadata.name ? `${group.metadata.name}/${version.version}` : version.version;
          for (const each of version.resources) {
            kinds.set(`${name}/${each.responseKind.kind}`, {
              resource: each.resource,
              namespaced: each.scope === "Namespaced",
            });
          }
        }
      }
    }
    return kinds;
  }

  async get(tree) {
    return this.ask("GET", await this.path(tree));
  }

  // Create or change: what says which version it was replaces it, anything else is applied.
  async put(tree) {
    if (!tree.metadata?.name) return this.ask("POST", await this.path(tree, ""), tree);
    const path = await this.path(tree);
    if (tree.metadata.resourceVersion) return this.ask("PUT", path, tree);
    return this.ask("PATCH", `${path}?fieldManager=${MANAGER}&force=true`, tree, "application/apply-patch+yaml");
  }

  async remove(tree) {
    return this.ask("DELETE", await this.path(tree));
  }

  // ---- the session

  fork(asked) {
    return this.ask("POST", `${this.root}ui/forks`, asked);
  }

  forks() {
    return this.ask("GET", `${this.root}ui/forks`);
  }

  forked(id) {
    return this.ask("GET", `${this.root}ui/forks?id=${id}`);
  }

  // All objects as YAML.
  async exported() {
    return (await this.read("objects")).blob();
  }

  // The scheduler's configuration as YAML, with all defaults.
  async schedulerConfiguration() {
    return (await this.read("ui/scheduler")).text();
  }

  // Create or replace the objects of YAML text; how many, and what was refused.
  restore(text) {
    return this.ask("POST", `${this.root}objects`, text, "application/yaml");
  }

  // Back to what the session began with.
  reset() {
    return this.ask("DELETE", `${this.root}objects`);
  }

  // run.rec of the session up to now.
  async recording() {
    return (await this.read("ui/recording")).blob();
  }

  // The answer of a path below the root, whatever it holds. Throws a Refusal.
  async read(path) {
    const answer = await fetch(`${this.root}${path}`, { headers: this.headers });
    if (!answer.ok) throw new Refusal(answer.status, said(await answer.text()));
    return answer;
  }
}

function said(text) {
  try {
    return JSON.parse(text).message ?? text;
  } catch {
    return text;
  }
}
