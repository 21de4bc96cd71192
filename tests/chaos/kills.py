"""A process is killed under load, again and again, and nothing that it acknowledged is lost.

    python -m tests.chaos.kills --kills 500 --seed 0

A writer (`tests.apiserver.storage.durable_writer`) asks an API server over a file for creations, patches and
deletions, one alone and many at once, and says which were acknowledged, until it is killed at any moment;
then the file is opened, and has to hold all of that, in order, and of the rest only what one request more had
written. The next writer goes on with the same file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from controlplane.api.request import Request
from controlplane.apiserver.storage.durable_store import DurableStore
from tests.apiserver.storage.durable_writer import HISTORY, NOW, open_server

CONFIGS = "/registry/configmaps/"
EVENTS = "/registry/events/"


def watched(store, since):
    server = open_server(store)
    query = {"resourceVersion": str(since)}
    watcher = server.watch(Request("watch", resource="configmaps", query=query), NOW)
    assert not watcher.closed
    return [
        (event.type, event.object.name, event.object.resource_version) for event in watcher.drain()
    ]


class Killed:
    """A store that writers write to and die over, and what must be in it."""

    def __init__(self, path):
        self.path = path
        self.revision = 1
        self.live = {}
        self.acknowledged = 0
        self.unfinished = 0
        self.writer = subprocess.Popen(
            [sys.executable, "-m", "tests.apiserver.storage.durable_writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def close(self):
        self.writer.stdin.close()
        self.writer.stdout.close()
        assert self.writer.wait() == 0

    def round(self, draw):
        """Let a writer write, kill it, and look at what it left."""
        grouped = draw.random() < 0.5
        self.writer.stdin.write(f"{self.path} {draw.randrange(1 << 30)} {int(grouped)}\n")
        self.writer.stdin.flush()
        pid = int(self.writer.stdout.readline())
        lines = []
        if draw.random() < 0.8:  # under load; else wherever it is, opening the file maybe
            lines.append(self.writer.stdout.readline())
        time.sleep(draw.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
        while not lines or lines[-1] != "end\n":
            lines.append(self.writer.stdout.readline())
        self.check([json.loads(line) for line in lines[:-1]])

    def check(self, answers):
        with closing(DurableStore.open(self.path, history_limit=HISTORY)) as store:
            last = answers[-1][0] if answers else self.revision
            assert store.revision >= last
            before = self.revision
            for _, changed in answers:
                self.live.update(changed)
            space = store.keyspace(CONFIGS)
            since = max(before, store.compacted)
            after = space.events_after(since)
            found = {event.revision: event for event in after}
            for revision, changed in answers:
                if revision > since and changed:
                    event = found[revision]
                    name = event.key.removeprefix("default/")
                    assert value_of(event.new) == changed[name]
            for event in after:  # the request that was under way
                if event.revision > last:
                    self.unfinished += 1
                    self.live[event.key.removeprefix("default/")] = value_of(event.new)
            self.live = {name: value for name, value in self.live.items() if value is not None}
            stored = {key.removeprefix("default/"): value_of(obj) for key, obj in space.items()}
            assert stored == self.live
            self.consistent(store)
            seen = [revision for _, _, revision in watched(store, since)]
            assert seen == [event.revision for event in after]
            self.revision = store.revision
            self.acknowledged += len(answers)

    def consistent(self, store):
        for prefix in store.prefixes():
            space = store.keyspace(prefix)
            assert list(space.keys()) == sorted(space.entries)
            for entry in space.entries.values():
                assert entry.object.resource_version == entry.mod_revision <= store.revision
                assert entry.create_revision <= entry.mod_revision
        leased = {(lease.prefix, lease.key) for lease in store.leases}
        assert leased == {(EVENTS, key) for key in store.keyspace(EVENTS).entries}


def value_of(obj):
    return None if obj is None else obj.tree["data"]["v"]


def kill_again_and_again(path, rounds, seed):
    killed = Killed(path)
    draw = random.Random(seed)
    try:
        for _ in range(rounds):
            killed.round(draw)
    finally:
        killed.close()
    assert killed.acknowledged > rounds / 2
    rows = sqlite3.connect(path)
    assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows.close()
    return killed


def main(arguments=None):
    """Runs a campaign and prints its table; 0 nothing was lost, 1 something was, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.kills", description=main.__doc__)
    parser.add_argument("--kills", type=int, default=100, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    options = parser.parse_args(arguments)
    if options.kills < 1:
        parser.error("--kills: expected 1 or more")
    with tempfile.TemporaryDirectory() as folder:
        try:
            killed = kill_again_and_again(Path(folder, "store.db"), options.kills, options.seed)
        except AssertionError as error:
            print(f"lost: {error}; python -m tests.chaos.kills --seed {options.seed}", flush=True)
            raise
    print(f"{'kills':>8}{'acknowledged':>14}{'unfinished':>12}{'lost':>6}")
    print(f"{options.kills:>8}{killed.acknowledged:>14}{killed.unfinished:>12}{0:>6}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
