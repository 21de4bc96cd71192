"""Power fails, and the disk fails, at every system call: what was acknowledged is there, whole."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.api.object import Object
from controlplane.apiserver.storage.acknowledged import Record
from controlplane.apiserver.storage.durable_store import (
    DurableStore,
    StoreFailedError,
    StoreFullError,
)
from controlplane.errors import UsageError
from tests.apiserver.storage.faulty_files import FULL, LAYER, after_power_loss, register

PODS = "/registry/pods/"
EVENTS = "/registry/events/"
State = dict[str, object]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    register()
    LAYER.begin()
    yield tmp_path / "store.db"
    LAYER.begin()


def named(name: str, value: object) -> Object:
    return Object({"metadata": {"name": name}, "value": value})


def state(store: DurableStore) -> State:
    return {
        f"{prefix}{key}": entry.object.tree["value"]
        for prefix in store.prefixes()
        for key, entry in store.keyspace(prefix).entries.items()
    }


class Work:
    """Writes to a store, and remembers how it was after every revision."""

    def __init__(self, path: Path, seed: int, *, grouped: bool = False) -> None:
        self.draw = random.Random(seed)
        self.states: dict[int, State] = {1: {}}
        self.store = DurableStore.open(path, vfs="faulty", history_limit=25, grouped=grouped)
        LAYER.told(1)

    def _noted(self) -> None:
        """Every revision since the last one that was noted."""
        store = self.store
        if store.revision not in self.states:
            for revision in range(max(self.states) + 1, store.revision):
                self.states[revision] = {"unknown": revision}
            self.states[store.revision] = state(store)

    def write(self) -> None:
        store, draw = self.store, self.draw
        kind = draw.random()
        name = f"k{draw.randrange(8)}"
        pods, events = store.keyspace(PODS), store.keyspace(EVENTS)
        if kind < 0.6:
            pods.put(name, named(name, "x" * draw.choice([1, 400, 9000]) + str(store.revision)))
        elif kind < 0.8:
            pods.delete(name)
        elif kind < 0.9:
            store.expire_at(events, name, store.revision + 1, 10)
            events.put(name, named(name, store.revision))
        elif kind < 0.95:
            store.compact(max(store.revision - 5, store.compacted))
        else:
            store.expire(10)
        self._noted()

    def run(self, writes: int) -> None:
        for number in range(writes):
            self.write()
            if number % 3 == 2 or not self.store._grouped:
                self.store.commit()
                LAYER.told(self.store.revision)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "grouped"),
    [(0, True), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((1, False), (2, True)))],
)
def test_power_fails_at_every_call(path: Path, tmp_path: Path, seed: int, grouped: bool) -> None:
    work = Work(path, seed, grouped=grouped)
    work.run(60)
    work.store._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    work.run(20)
    work.store.close()
    calls = list(LAYER.calls)
    assert {"write", "sync", "truncate", "told"} <= {call.kind for call in calls}
    draw = random.Random(seed)
    for at in range(0, len(calls) + 1, 3 if len(calls) > 300 else 1):
        folder = tmp_path / f"after-{at}"
        folder.mkdir()
        told = after_power_loss(calls[:at], folder, draw)
        with_what_is_left(folder / path.name, max(told, default=0), work.states)


def with_what_is_left(path: Path, acknowledged: int, states: dict[int, State]) -> None:
    if acknowledged:  # the record is never newer than what was synced before
        Record(path, acknowledged).close()
    store = DurableStore.open(path)
    try:
        assert store.revision >= acknowledged
        expected = states[store.revision]
        assert "unknown" not in expected
        assert state(store) == expected
        store.keyspace(PODS).put("more", named("more", 1))
    finally:
        store.close()


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("code", [0, FULL])
@pytest.mark.parametrize("lasts", [1, 1 << 60])
def test_the_disk_fails_at_every_call(tmp_path: Path, lasts: int, code: int, every: int) -> None:
    register()
    LAYER.begin()
    at, reached = 1 - every, False
    while not reached:
        at += every
        folder = tmp_path / f"fails-{at}"
        folder.mkdir()
        LAYER.begin(at, lasts=lasts, with_code=code)
        reached = not attempt(folder / "store.db", full=code == FULL)
    assert at > 60


def attempt(path: Path, *, full: bool) -> bool:
    """Work until something fails, and a little more; whether anything did."""
    acknowledged = 0
    states: dict[int, State] = {1: {}}
    try:
        work = Work(path, 3)
        states = work.states
    except UsageError as error:
        assert "\n" not in str(error)
        LAYER.begin()
        DurableStore.open(path).close()
        return True
    acknowledged = work.store.revision
    for _ in range(40):
        before, revision = state(work.store), work.store.revision
        try:
            work.write()
        except StoreFailedError as error:
            assert isinstance(error, StoreFullError) is full
            assert (state(work.store), work.store.revision) == (before, revision)
            if full and LAYER.lasts > 1:
                assert work.store.trouble().startswith("etcdserver: mvcc: database space")
        else:
            acknowledged = work.store.revision
    failed = LAYER.failed > 0
    if full and LAYER.lasts > 1 and failed:
        LAYER.begin()  # there is space again
        assert work.store.trouble() == ""
        work.write()
        acknowledged = work.store.revision
    LAYER.begin()
    try:
        work.store.close()
    except (sqlite3.Error, StoreFailedError):
        work.store._base.close()
    store = DurableStore.open(path)
    try:
        assert store.revision >= acknowledged
        if store.revision in states:
            assert state(store) == states[store.revision]
    finally:
        store.close()
    return failed
