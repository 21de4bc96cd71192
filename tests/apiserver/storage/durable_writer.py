"""A process that writes to a durable store until it is killed, and says what was acknowledged.

For every line `PATH SEED GROUPED` on standard input it forks a writer; the writer's process id is
the first line it prints, one line `[revision, {key: value or null}]` follows every acknowledged
request, and `end` when it is dead. A line is written in one piece, however the writer ends.
"""

from __future__ import annotations

import json
import os
import random
import sys
from itertools import count

from controlplane.api.request import Request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.patching.apply_patch import MERGE_PATCH
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.storage.durable_store import DurableStore

NOW = 1_924_992_000 * 10**9
HISTORY = 400
NAMES = 40


def open_server(store):
    serials = count(store.incarnation << 40)
    server = ApiServer(
        store,
        uid=lambda: f"uid-{next(serials)}",
        suffix=lambda: f"{next(serials)}",
        options=ServerOptions(disabled=("ServiceAccount",)),
    )
    server.bootstrap(NOW)
    return server


def say(line):
    os.write(1, line.encode() + b"\n")


def config(name, value):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": value}


def event(name):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "type": "Normal",
    }


class Writer:
    def __init__(self, path, seed, grouped):
        self.random = random.Random(seed)
        self.store = DurableStore.open(path, history_limit=HISTORY, grouped=grouped)
        self.server = open_server(self.store)

    def ask(self, verb, resource, name="", body=None, media="application/json"):
        request = Request(
            verb, "", "v1", resource, namespace="default", name=name, body=body, content_type=media
        )
        return self.server.handle(request, NOW)

    def request(self):
        """One random request; what it changed, or None if it was refused."""
        draw = self.random.random()
        name = f"c{self.random.randrange(NAMES)}"
        if draw < 0.1:
            name = f"e{self.store.revision}"
            assert self.ask("create", "events", name, event(name)).ok
            return {}
        if draw < 0.12:
            answer = self.ask("deletecollection", "configmaps")
            return {obj.name: None for obj in answer.items}
        if draw < 0.3:
            return {name: None} if self.ask("delete", "configmaps", name).ok else None
        value = "x" * self.random.choice([1, 50, 3000]) + str(self.store.revision)
        answer = self.ask("create", "configmaps", body=config(name, {"v": value}))
        if not answer.ok:
            patch = {"data": {"v": value}}
            answer = self.ask("patch", "configmaps", name, patch, MERGE_PATCH)
        assert answer.ok, answer.message
        return {name: value}

    def run(self):
        while True:
            changed = self.request()
            if changed is not None:
                self.store.commit()
                say(json.dumps([self.store.revision, changed]))


def main():
    for line in sys.stdin:
        path, seed, grouped = line.split()
        child = os.fork()
        if child == 0:
            say(str(os.getpid()))
            Writer(path, int(seed), grouped == "1").run()
        os.waitpid(child, 0)
        say("end")


if __name__ == "__main__":
    main()
