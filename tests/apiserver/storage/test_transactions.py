"""Operations on the store as values, and what a server hears of a store that is elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.storage.mirror import Mirror, news_since, snapshot
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.transactions import (
    UNVERSIONED,
    Compact,
    Delete,
    Found,
    Get,
    Items,
    Put,
    Range,
    TooNew,
    TooOld,
    Transaction,
    perform,
)

P = "/registry/configmaps/"
Q = "/registry/secrets/"


def put(key, value="", prefix=P):
    return Put(prefix, key, {"metadata": {"name": key}, "data": value})


def write(store, key, value="", prefix=P):
    return perform(store, Transaction((), (put(key, value, prefix),)))


def test_a_transaction_is_made_if_every_key_is_as_expected():
    store = Store()
    made = perform(store, Transaction(((P, "a", 0),), (put("a", "1"),)))
    assert made.made and made.revision == store.revision == 2
    assert made.objects[0].resource_version == 2
    again = perform(store, Transaction(((P, "a", 2),), (put("a", "2"), Delete(P, "none"))))
    assert again.made
    assert perform(store, Get(P, "a")) == Found(again.objects[0], rewritten=True)


def test_a_transaction_that_is_refused_writes_nothing_and_tells_what_is_there():
    store = Store()
    there = write(store, "a", "1").objects[0]
    refused = perform(store, Transaction(((P, "a", 0), (P, "b", 0)), (put("a"), put("b"))))
    assert not refused.made
    assert refused.objects == (there, None)
    assert store.revision == 2 and perform(store, Get(P, "b")) is None


def test_a_prefix_that_was_written_to_refuses_what_needs_it_unchanged():
    store = Store()
    write(store, "a")
    write(store, "s", prefix=Q)
    asked = Transaction(((P, "b", 0),), (put("b"),), ((P, 2),))
    assert perform(store, asked).made
    late = Transaction(((P, "c", 0),), (put("c"),), ((P, 3),))
    refused = perform(store, late)
    assert not refused.made and refused.objects == (None,)


def test_the_store_sets_the_version_where_the_place_for_it_is():
    store = Store()
    tree = {"metadata": {"name": "a", "resourceVersion": UNVERSIONED, "uid": "u"}}
    done = perform(store, Transaction((), (Put(P, "a", tree),)))
    meta = done.objects[0].tree["metadata"]
    assert list(meta) == ["name", "resourceVersion", "uid"]
    assert meta["resourceVersion"] == "2"
    assert tree["metadata"]["resourceVersion"] == UNVERSIONED


def test_ranges_tell_how_it_was_as_far_as_that_is_known():
    store = Store()
    first = write(store, "a", "1").objects[0]
    write(store, "a", "2")
    assert perform(store, Range(P, revision=2)) == Items((("a", first),), 2)
    assert perform(store, Range(P, revision=9)) == TooNew(3)
    store.compact(3)
    assert perform(store, Range(P, revision=2)) == TooOld(3)


def test_compactors_take_turns():
    store = Store()
    write(store, "a")
    first = perform(store, Compact(0, 0))
    assert first.made and first.turn == 1
    late = perform(store, Compact(0, 2))
    assert not late.made and late.turn == 1 and store.compacted == 0
    assert perform(store, Compact(1, 2)).made
    assert store.compacted == 2


WRITES = st.lists(
    st.tuples(st.sampled_from("wwwdcf"), st.sampled_from((P, Q)), st.sampled_from("abc")),
    max_size=40,
)


@given(WRITES)
def test_what_hears_of_every_write_holds_the_same(writes):
    """w: write, d: delete, c: compact what was heard of, f: begin again from a snapshot."""
    store, mirror = Store(), Mirror()
    write(store, "a", "0")
    mirror.begin(snapshot(store))
    for number, (what, prefix, key) in enumerate(writes):
        if what == "w":
            write(store, key, str(number), prefix)
        elif what == "d":
            perform(store, Transaction((), (Delete(prefix, key),)))
        elif what == "c":
            store.compact(mirror.revision)
        elif what == "f":
            mirror.begin(snapshot(store))
        mirror.take(news_since(store, mirror.revision))
        assert mirror.revision == store.revision
        for each in store.prefixes():
            assert mirror.keyspace(each).items() == store.keyspace(each).items()
            since = max(store.compacted, mirror.compacted)
            heard = mirror.keyspace(each).events_after(since)
            assert heard == store.keyspace(each).events_after(since)
