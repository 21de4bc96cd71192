// Where the page begins: with the runs that stand in it, or with the server that it came from.

import { App } from "./app.js";
import { embedded, HttpSource } from "./source.js";

const app = new App(document);
app.open(embedded(document) ?? new HttpSource("model"));
