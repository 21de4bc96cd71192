import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.apiserver.storage.durable_store import DurableStore, StoreFailedError, open_store
from controlplane.apiserver.storage.store import CompactedError, Store
from controlplane.apiserver.storage.watch_cache import Interest, WatchCache
from controlplane.errors import UsageError
from tests.apiserver.storage.durable_writer import HISTORY, NOW, open_server

CONFIGS = "/registry/configmaps/"
EVENTS = "/registry/events/"


def named(name, value=0):
    return Object({"metadata": {"name": name}, "value": value})


@contextmanager
def opened(path, **options):
    store = DurableStore.open(path, **options)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def content(store):
    return {
        prefix: [
            (key, entry.object.tree, entry.create_revision, entry.mod_revision, entry.version)
            for key, entry in sorted(store.keyspace(prefix).entries.items())
        ]
        for prefix in store.prefixes()
    }


def history(store, since):
    return {
        prefix: [
            (event.revision, event.key, event.new and event.new.tree, event.old and event.old.tree)
            for event in store.keyspace(prefix).events_after(since)
        ]
        for prefix in store.prefixes()
    }


def write_much(store, seed=1, writes=300):
    draw = random.Random(seed)
    spaces = [store.keyspace("/pods/"), store.keyspace("/nodes/")]
    for number in range(writes):
        space, key = draw.choice(spaces), f"k{draw.randrange(12)}"
        if draw.random() < 0.3:
            space.delete(key)
        else:
            space.put(key, named(key, number))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("compacted", [0, 1, 57, 200])
def test_reopening_continues_exactly_where_the_memory_was(path, grouped, compacted):
    plain = Store()
    write_much(plain)
    with opened(path, grouped=grouped) as store:
        write_much(store)
        assert content(store) == content(plain)
        for each in (plain, store):
            each.compact(compacted)
    with opened(path) as store:
        assert store.revision == plain.revision
        assert store.compacted == plain.compacted
        assert content(store) == content(plain)
        assert history(store, compacted) == history(plain, compacted)
        at = max(compacted, plain.revision - 40)
        assert [(key, obj.tree) for key, obj in store.keyspace("/pods/").at(at)] == [
            (key, obj.tree) for key, obj in plain.keyspace("/pods/").at(at)
        ]
        if compacted:
            with pytest.raises(CompactedError):
                store.keyspace("/pods/").events_after(compacted - 1)
        assert store.keyspace("/pods/").put("new", named("new")) == plain.revision + 1


def test_compacting_a_last_deletion_away_does_not_turn_the_revision_back(path):
    with opened(path, revision=100) as store:
        space = store.keyspace("/pods/")
        space.put("a", named("a"))
        revision = space.delete("a")
        store.compact(revision)
    with opened(path) as store:
        assert store.revision == revision == 102
        assert list(store.keyspace("/pods/").keys()) == []


def test_the_file_keeps_no_more_than_memory_does(path):
    with opened(path, history_limit=50) as store:
        space = store.keyspace("/pods/")
        for value in range(1000):
            space.put("a", named("a", value))
    rows = sqlite3.connect(path)
    (count,) = rows.execute("SELECT count(*) FROM log").fetchone()
    rows.close()
    assert count <= 2 * 50 + 1
    with opened(path) as store:
        assert store.keyspace("/pods/").get("a").version == 1000


def test_leases_go_on(path):
    with opened(path) as store:
        space = store.keyspace("/events/")
        for name, deadline in (("a", 10), ("b", 20), ("c", 30)):
            store.expire_at(space, name, space.put(name, named(name)), deadline)
        space.put("b", named("b", 1))
        assert store.expire(10) == 1
    with opened(path) as store:
        assert store.next_expiry() == 30
        assert store.expire(40) == 1
        assert list(store.keyspace("/events/").keys()) == ["b"]
    with opened(path) as store:
        assert store.next_expiry() is None


def test_every_opening_is_another_incarnation(path):
    seen = []
    for _ in range(3):
        with opened(path) as store:
            seen.append(store.incarnation)
    assert seen == [1, 2, 3]
    assert Store().incarnation == 1


def test_a_fork_lives_in_memory_alone(path):
    with opened(path) as store:
        store.keyspace("/pods/").put("a", named("a"))
        fork = store.fork()
        fork.keyspace("/pods/").put("b", named("b"))
        assert type(fork) is Store
        assert content(store) != content(fork)
    with opened(path) as store:
        assert list(store.keyspace("/pods/").keys()) == ["a"]


def test_a_write_that_the_file_refuses_changes_nothing_and_ends_all_writing(path):
    with opened(path) as store:
        space = store.keyspace("/pods/")
        space.put("a", named("a"))
        store._base.execute("DROP TABLE log")
        for key in ("a", "b"):
            with pytest.raises(StoreFailedError):
                space.put(key, named(key, 1))
        assert [obj.tree["value"] for _, obj in space.items()] == [0]
        assert store.revision == 2


def test_a_full_disk_loses_nothing_that_was_acknowledged(path):
    with opened(path) as store:
        store._base.execute("PRAGMA max_page_count = 40")
        space = store.keyspace("/pods/")
        written = 0
        with pytest.raises(StoreFailedError, match="cannot write: database or disk is full"):
            while True:
                space.put(f"k{written}", named("x" * 1000))
                written += 1
        with pytest.raises(StoreFailedError, match="takes no writes"):
            space.delete("k0")
        assert store.revision == written + 1
    with opened(path) as store:
        assert store.revision == written + 1
        assert len(store.keyspace("/pods/").entries) == written > 0


def test_a_reopened_watch_cache_remembers_its_window_and_no_more(path):
    with opened(path) as store:
        space = store.keyspace("/pods/")
        revisions = [space.put(f"n/k{number}", named(f"k{number}")) for number in range(20)]
    with opened(path) as store:
        cache = WatchCache(store.keyspace("/pods/"), window=5, since=store.watches_since())
        assert cache.oldest == revisions[14]
        watcher = cache.watch(Interest(), after=revisions[14])
        assert [event.revision for event in watcher.drain()] == revisions[15:]
        with pytest.raises(CompactedError):
            cache.watch(Interest(), after=revisions[13])


def test_a_store_is_named_by_its_kind(tmp_path):
    assert type(open_store("memory")) is Store
    store = open_store(f"sqlite:{tmp_path}/a b:c.db")
    assert isinstance(store, DurableStore)
    store.close()
    assert (tmp_path / "a b:c.db").exists()
    for spec in ("sqlite", "sqlite:", "disk", "", "etcd:x"):
        with pytest.raises(UsageError, match="expected memory or sqlite:FILE"):
            open_store(spec)


def refused(path, text):
    with pytest.raises(UsageError) as caught:
        DurableStore.open(path)
    message = str(caught.value)
    assert text in message
    assert message.startswith(str(path))
    assert "\n" not in message


def test_files_that_are_no_store_are_refused_and_left_alone(path, tmp_path):
    path.write_bytes(b"kind: Pod\n" * 1000)
    before = path.read_bytes()
    refused(path, "not an SQLite file")
    assert path.read_bytes() == before
    other = tmp_path / "other.db"
    rows = sqlite3.connect(other)
    rows.execute("CREATE TABLE kine (id INTEGER)")
    rows.commit()
    rows.close()
    before = other.read_bytes()
    refused(other, "another program")
    assert other.read_bytes() == before
    refused(tmp_path / "nowhere" / "x.db", "cannot open the store")
    refused(tmp_path, "cannot open the store")


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    with opened(path) as store:
        assert store.revision == 1


def test_a_store_in_use_is_refused(path):
    with opened(path):
        refused(path, "in use by another process")


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE log SET value = x'7b7d' WHERE revision = 9", "checksum"),
        ("UPDATE log SET value = 'text' WHERE revision = 9", "a row is malformed"),
        ("UPDATE log SET key = 'other' WHERE revision = 9", "checksum"),
        ("DELETE FROM log WHERE revision = 9", "revision 9 is missing"),
        ("UPDATE log SET previous = 3 WHERE revision = 9", "follows none"),
        ("DELETE FROM facts", "incomplete"),
        ("DROP TABLE leases", "damaged"),
        ("PRAGMA user_version = 7", "store format 7"),
    ],
)
def test_damage_is_one_clear_line(path, statement, text):
    with opened(path) as store:
        for number in range(20):
            store.keyspace("/pods/").put(f"k{number}", named(f"k{number}"))
    rows = sqlite3.connect(path)
    rows.execute(statement)
    rows.commit()
    rows.close()
    refused(path, text)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_are_noticed_or_harmless(path, seed):
    with opened(path) as store:
        write_much(store)
        whole = content(store)
    draw = random.Random(seed)
    data = bytearray(path.read_bytes())
    start = draw.randrange(len(data))
    for at in range(start, min(start + draw.choice([1, 16, 4096]), len(data))):
        data[at] = draw.randrange(256)
    path.write_bytes(data)
    try:
        with opened(path) as store:
            assert content(store) == whole
    except UsageError as error:
        assert "\n" not in str(error)


def test_a_watch_goes_on_after_reopening(path):
    with opened(path) as store:
        server = open_server(store)
        for name in ("a", "b"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            create = Request("create", resource="configmaps", namespace="default", body=body)
            answer = server.handle(create, NOW)
            assert answer.ok
        then = store.revision
        for name in ("a", "b"):
            delete = Request("delete", resource="configmaps", namespace="default", name=name)
            assert server.handle(delete, NOW).ok
    with opened(path) as store:
        assert watched(store, then) == [("DELETED", "a", then + 1), ("DELETED", "b", then + 2)]


def watched(store, since):
    server = open_server(store)
    query = {"resourceVersion": str(since)}
    watcher = server.watch(Request("watch", resource="configmaps", query=query), NOW)
    assert not watcher.closed
    return [(event.type, event.object.name, event.object.resource_version)
            for event in watcher.drain()]  # fmt: skip


# -- killed under load ---------------------------------------------------------------------------


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
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=Path(__file__).parents[3],
        )  # fmt: skip

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
        with opened(self.path, history_limit=HISTORY) as store:
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
        leased = {(prefix, key) for _, _, prefix, key, _ in store._leases}
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
    assert killed.acknowledged > rounds
    rows = sqlite3.connect(path)
    assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows.close()
    return killed


def test_what_was_acknowledged_survives_kill_9(path):
    kill_again_and_again(path, 15, 1)


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9_a_hundred_times(path):
    killed = kill_again_and_again(path, 100, 2)
    print(f"{killed.acknowledged} acknowledged, {killed.unfinished} events of unfinished requests")
