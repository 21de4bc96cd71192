// Where the page begins: with the runs that stand in it, or with the server that it came from.

import { App } from "./app.js";
import { openLive } from "./live.js";
import { embedded } from "./source.js";

const app = new App(document);
const standing = embedded(document);
if (standing) app.open(standing);
else openLive(app);
