import os
import random
import sqlite3
import stat
import zlib
from contextlib import closing, contextmanager, suppress

import pytest

from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.api.stored import Stored
from controlplane.apiserver.storage.acknowledged import Record, recorded
from controlplane.apiserver.storage.durable_store import (
    DurableStore,
    StoreFailedError,
    StoreFullError,
    open_store,
)
from controlplane.apiserver.storage.store import CompactedError, Store
from controlplane.apiserver.storage.watch_cache import Interest, WatchCache
from controlplane.errors import UsageError
from tests.apiserver.storage.durable_writer import NOW, open_server
from tests.chaos.kills import kill_again_and_again, watched


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


def fill(store, space):
    """Write until nothing more fits; how many writes were acknowledged."""
    pages = store._base.execute("PRAGMA page_count").fetchone()[0]
    store._base.execute(f"PRAGMA max_page_count = {pages + 10}")
    written = 0
    with pytest.raises(StoreFullError, match=r"^etcdserver: mvcc: database space exceeded$"):
        while True:
            space.put(f"k{written}", named("x" * 1000))
            written += 1
    assert written
    return written


def test_a_full_disk_loses_nothing_that_was_acknowledged(path):
    with opened(path) as store:
        space = store.keyspace("/pods/")
        written = fill(store, space)
        assert store.revision == written + 1
    with opened(path) as store:
        assert store.revision == written + 1
        assert len(store.keyspace("/pods/").entries) == written


def test_writing_goes_on_when_there_is_space_again(path):
    with opened(path) as store:
        space = store.keyspace("/pods/")
        written = fill(store, space)
        before = content(store)
        with pytest.raises(StoreFullError):
            space.put("k0", named("y" * 9000))
        assert content(store) == before
        store._base.execute("PRAGMA max_page_count = 100000")
        assert store.trouble() == ""
        assert space.put("k0", named("y" * 9000)) == written + 2
        after = content(store)
    with opened(path) as store:
        assert content(store) == after


def test_a_full_disk_leaves_leases_and_history_as_they_are(path):
    with opened(path, history_limit=20) as store:
        events = store.keyspace("/events/")
        for number in range(30):
            store.expire_at(events, f"e{number}", store.revision + 1, 10)
            events.put(f"e{number}", named("x" * 3000))
        fill(store, store.keyspace("/pods/"))
        before = content(store)
        with pytest.raises(StoreFullError):
            while True:  # nothing can be forgotten either, once the freed pages are used up
                store.compact(store.revision)
                store.keyspace("/pods/").put("more", named("x" * 3000))
        with suppress(StoreFullError):
            assert store.expire(10) == 30
            before.pop("/events/")
        after = content(store)
    with opened(path) as store:
        assert content(store) == after
        assert store.next_expiry() in (None, 10)


def test_history_is_limited_by_its_length_too(path):
    with opened(path, history_bytes=100_000) as store:
        space = store.keyspace("/pods/")
        for _ in range(300):
            space.put("a", named("a", "x" * 1000))
        assert 50 <= store.revision - store.compacted <= 100
        small = path.stat().st_size
        for _ in range(1000):
            space.put("a", named("a", "x" * 1000))
        assert path.stat().st_size <= small + 300_000
    with opened(path, history_bytes=100_000) as store:
        assert store.keyspace("/pods/").get("a").version == 1300
        assert store._remembered <= 100_000


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
        ("UPDATE log SET created = 3 WHERE revision = 9", "checksum"),
        ("UPDATE log SET version = 3 WHERE revision = 9", "checksum"),
        ("UPDATE log SET previous = 3 WHERE revision = 9", "checksum"),
        ("UPDATE log SET deadline = 3 WHERE revision = 9", "checksum"),
        ("UPDATE log SET checksum = 3 WHERE revision = 9", "checksum"),
        ("UPDATE log SET value = NULL WHERE revision = 9", "checksum"),
        ("DELETE FROM log WHERE revision = 2", "up to the compacted one is missing"),
        ("DELETE FROM facts", "incomplete"),
        ("UPDATE facts SET value = 7 WHERE name = 'compacted'", "checksum"),
        ("UPDATE facts SET value = 7 WHERE name = 'incarnation'", "checksum"),
        ("UPDATE facts SET name = 'other' WHERE name = 'kept'", "checksum"),
        ("DROP TABLE facts", "damaged"),
        ("CREATE TABLE more (a INTEGER)", "not those of a store"),
        ("PRAGMA user_version = 7", "store format 7"),
    ],
)
def test_damage_is_one_clear_line(path, statement, text):
    with opened(path) as store:
        for number in range(20):
            store.keyspace("/pods/").put(f"k{number}", named(f"k{number}"))
        store.compact(3)
    rows = sqlite3.connect(path)
    rows.execute(statement)
    rows.commit()
    rows.close()
    refused(path, text)


def everything(store):
    """All that a store holds, leases and history too."""
    since = store.compacted
    return store.revision, since, content(store), history(store, since), sorted(store.leases)


def small_store(path):
    with opened(path) as store:
        write_much(store, writes=60)
        events = store.keyspace("/events/")
        for number in range(4):
            store.expire_at(events, f"e{number}", store.revision + 1, 10 + number)
            events.put(f"e{number}", named(f"e{number}", "long " * 300))
        store.compact(30)
        return everything(store)


def is_noticed_or_harmless(path, data, whole):
    """Whether it was noticed."""
    path.write_bytes(data)
    try:
        with opened(path) as store:
            assert everything(store) == whole
    except UsageError as error:
        assert "\n" not in str(error)
        return True
    return False


@pytest.mark.parametrize("seed", range(6))
def test_damaged_bytes_are_noticed_or_harmless(path, seed):
    whole = small_store(path)
    data = path.read_bytes()
    draw = random.Random(seed)
    noticed = 0
    for _ in range(60):
        damaged = bytearray(data)
        at = draw.randrange(len(data))
        for each in range(at, min(at + draw.choice([1, 16, 4096]), len(data))):
            damaged[each] ^= 1 << draw.randrange(8)
        noticed += is_noticed_or_harmless(path, damaged, whole)
    assert noticed


BLOCK = 64


def flipped(data, positions):
    damaged = bytearray(data)
    for at in positions:
        damaged[at] ^= 1 << at % 8
    return damaged


@pytest.mark.slow  # 10,000 files are opened
def test_every_byte_of_a_store_is_covered(path):
    """Each byte is flipped alone, but for blocks that may be flipped as a whole: what stands there means nothing."""
    whole = small_store(path)
    data = path.read_bytes()
    noticed = free = 0
    for start in range(0, len(data), BLOCK):
        block = range(start, min(start + BLOCK, len(data)))
        if not is_noticed_or_harmless(path, flipped(data, block), whole):
            free += len(block)
            continue
        for at in block:
            noticed += is_noticed_or_harmless(path, flipped(data, [at]), whole)
    print(f"{noticed} of {len(data)} flips were noticed; {free} bytes are free")
    assert noticed > len(data) // 4


COLUMNS = ("revision", "prefix", "key", "created", "version", "previous", "deadline", "checksum")


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_is_covered_in_every_row(path, column, compacted):
    small_store(path)
    base = sqlite3.connect(path)
    order = "<=" if compacted else ">"
    (revision,) = base.execute(
        f"SELECT min(revision) FROM log WHERE revision {order} 30"
    ).fetchone()
    change = f"{column} || 'x'" if column in ("prefix", "key") else f"{column} + 1000"
    base.execute(f"UPDATE log SET {column} = {change} WHERE revision = ?", (revision,))
    base.commit()
    base.close()
    refused(path, "damaged")


def test_a_row_that_is_gone_is_noticed_wherever_it_was(path):
    small_store(path)
    base = sqlite3.connect(path)
    revisions = [each for (each,) in base.execute("SELECT revision FROM log")]
    base.close()
    data = path.read_bytes()
    assert min(revisions) <= 30 < max(revisions)
    for revision in revisions[:-1]:  # without the last one the file is as it was before that write
        path.write_bytes(data)
        base = sqlite3.connect(path)
        base.execute("DELETE FROM log WHERE revision = ?", (revision,))
        base.commit()
        base.close()
        refused(path, "damaged")


def test_damage_in_the_write_ahead_log_is_noticed_unless_its_last_commit_was_not_acknowledged(path):
    store = DurableStore.open(path)
    log = path.with_name(f"{path.name}-wal")
    for number in range(20):
        store.keyspace("/pods/").put(f"k{number}", named(f"k{number}", "x" * 3000))
    last = log.stat().st_size
    store.keyspace("/pods/").put("last", named("last"))
    files = {each: each.read_bytes() for each in (path, log)}
    store.close()
    draw = random.Random(1)
    for _ in range(40):
        for each, data in files.items():
            each.write_bytes(data)
        damaged = bytearray(files[log])
        damaged[draw.randrange(last - 9000)] ^= 1 << draw.randrange(8)
        log.write_bytes(damaged)
        refused(path, "write-ahead log does not match its checksum")
    for at in (last + 30, last + 2000):
        for each, data in files.items():
            each.write_bytes(data)
        damaged = bytearray(files[log])
        damaged[at] ^= 1
        log.write_bytes(damaged[: last + 4120])
        Record(path, 22).close()
        refused(path, "but 22 was acknowledged")
        for each, data in files.items():
            each.write_bytes(data)
        log.write_bytes(damaged[: last + 4120])
        Record(path, 21).close()
        with opened(path) as store:  # as if the power had failed amid the last write
            assert store.revision == 21


def killed_store(path, writes=20, checkpoint=0):
    """The files of a store whose process was killed, by their ends; `checkpoint` is when the log began anew."""
    store = DurableStore.open(path)
    for number in range(writes):
        store.keyspace("/pods/").put(f"k{number}", named(f"k{number}", "x" * 3000))
        if number == checkpoint:
            store._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files = {end: path.with_name(path.name + end).read_bytes() for end in ENDS}
    whole = everything(store)
    store.close()
    return files, whole


ENDS = ("", "-wal", "-acknowledged")


def put_back(path, files):
    for end in ENDS:
        path.with_name(path.name + end).unlink(missing_ok=True)
    for end, data in files.items():
        path.with_name(path.name + end).write_bytes(data)


@pytest.mark.parametrize("checkpoint", [-1, 0, 10])
def test_a_log_that_was_cut_short_is_refused(path, checkpoint):
    files, whole = killed_store(path, checkpoint=checkpoint)
    size = len(files["-wal"])
    for cut in (0, 10, 32, size // 3, size // 2, size - 4120, size - 1):
        put_back(path, {**files, "-wal": files["-wal"][:cut]})
        refused(path, "but 21 was acknowledged")
        put_back(path, {**files, "-wal": files["-wal"][:cut]})
        path.with_name(f"{path.name}-acknowledged").unlink()
        with opened(path) as store:  # as the message says
            assert store.revision < 21
    put_back(path, {end: files[end] for end in ("", "-acknowledged")})
    refused(path, "but 21 was acknowledged")
    put_back(path, files)
    with opened(path) as store:
        assert everything(store) == whole


def test_a_refused_store_opens_when_its_log_is_back(path):
    files, whole = killed_store(path)
    put_back(path, {**files, "-wal": files["-wal"][:9000]})
    refused(path, "write-ahead log was cut short")
    put_back(path, files)
    with opened(path) as store:
        assert everything(store) == whole


@pytest.mark.parametrize("grouped", [False, True])
def test_the_record_never_runs_ahead_of_the_file(path, grouped):
    with opened(path, grouped=grouped) as store:
        pods = store.keyspace("/pods/")
        for number in range(20):
            pods.put(f"k{number}", named(f"k{number}"))
            assert recorded(path) == (1 if grouped else store.revision)
        store.commit()
        assert recorded(path) == store.revision == 21
        with pytest.raises(ZeroDivisionError), store._batch():
            store._insert(22, "/pods/", "k", named("k"), None)
            raise ZeroDivisionError
        store.commit()
        assert recorded(path) == 21


@pytest.mark.parametrize(
    "record", [None, b"", b"\0" * 54, b"revision 99999999999999999999 checksum 0\n"]
)
def test_a_record_that_is_missing_or_damaged_keeps_no_store_closed(path, record):
    files, whole = killed_store(path)
    put_back(path, {**files, "-acknowledged": record or b""})
    if record is None:
        path.with_name(f"{path.name}-acknowledged").unlink()
    with opened(path) as store:
        assert everything(store) == whole
    assert recorded(path) == 21


def test_a_new_store_in_place_of_one_that_was_removed_begins_anew(path):
    killed_store(path)
    path.unlink()
    with opened(path) as store:
        assert store.revision == 1
    assert recorded(path) == 1


def test_a_file_of_the_format_before_is_brought_up_to_date(path):
    whole = small_store(path)
    make_old(path)
    with opened(path) as store:
        assert everything(store)[:4] == whole[:4]
        assert store.next_expiry() == 10
        assert store.incarnation == 2
    with closing(sqlite3.connect(path)) as base:
        assert base.execute("PRAGMA user_version").fetchone() == (2,)
    make_old(path)
    base = sqlite3.connect(path)
    base.execute("UPDATE log SET key = 'x' WHERE revision = 50")
    base.commit()
    base.close()
    refused(path, "revision 50 does not match its checksum")


def make_old(path):
    """Turn a file into one of format 1."""
    base = sqlite3.connect(path)
    rows = base.execute("SELECT * FROM log").fetchall()
    facts = base.execute("SELECT name, value FROM facts WHERE name NOT LIKE 'kept%'").fetchall()
    base.executescript(
        "DROP TABLE log; DROP TABLE facts; PRAGMA user_version = 1;"
        "CREATE TABLE log (revision INTEGER PRIMARY KEY, prefix TEXT NOT NULL, key TEXT NOT NULL,"
        " created INTEGER NOT NULL, version INTEGER NOT NULL, previous INTEGER NOT NULL,"
        " value BLOB, checksum INTEGER NOT NULL);"
        "CREATE TABLE leases (revision INTEGER PRIMARY KEY, prefix TEXT NOT NULL, key TEXT NOT NULL,"
        " deadline INTEGER NOT NULL);"
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"
    )
    for revision, prefix, key, created, version, previous, deadline, _, value in rows:
        head = f"{revision} {prefix} {key} {'-' if value is None else '+'}".encode()
        checksum = zlib.crc32(value or b"", zlib.crc32(head))
        row = (revision, prefix, key, created, version, previous, value, checksum)
        base.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        if deadline:
            base.execute(
                "INSERT INTO leases VALUES (?, ?, ?, ?)", (revision, prefix, key, deadline)
            )
    base.executemany("INSERT INTO facts VALUES (?, ?)", facts)
    base.commit()
    base.close()


def test_what_is_read_back_is_parsed_when_it_is_looked_at(path):
    with opened(path) as store:
        store.keyspace("/pods/").put("a", named("a", "x" * 20_000))
        store.keyspace("/pods/").put("b", named("b", "\ud800"))
    with opened(path) as store:
        long, odd = (store.keyspace("/pods/").get(key).object for key in ("a", "b"))
        assert type(long) is Stored
        assert len(long.json) > 20_000
        assert type(long) is Stored
        assert long.tree["value"] == "x" * 20_000
        assert type(long) is Object
        assert long.tree is long.tree
        assert odd.name == "b"
        assert odd.tree["value"] == "\ud800"
        assert odd.json == Object(odd.tree).json


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


# -- killed under load ---------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9(path):
    kill_again_and_again(path, 15, 1)


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9_a_hundred_times(path):
    killed = kill_again_and_again(path, 100, 2)
    print(f"{killed.acknowledged} acknowledged, {killed.unfinished} events of unfinished requests")


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_only_its_owner_reads_a_store(tmp_path, umask):
    path = tmp_path / "store.db"
    before = os.umask(umask)
    try:
        store = DurableStore.open(path)
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
        store.close()
        assert set(modes.values()) == {0o600}, modes
        path.chmod(0o644)
        DurableStore.open(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "one that was made before"
