from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.client.deltas import (
    ADDED,
    BATCH_MAX,
    BOOKMARK,
    DELETED,
    REPLACED_ALL,
    UPDATED,
    Delta,
    DeltaQueue,
    Notification,
    apply,
)
from controlplane.client.indexer import Indexer
from tests.client.objects import obj


def queue(*deltas):
    made = DeltaQueue()
    for delta in deltas:
        made.add(delta)
    return made


def change(kind, made):
    return Delta(kind, made, (), str(made.resource_version))


def replaced(*objects, version="9"):
    return Delta(REPLACED_ALL, None, objects, version)


def test_a_batch_ends_before_a_key_comes_again():
    first, second, third = obj("a", 1), obj("b", 2), obj("a", 3)
    pending = queue(change(ADDED, first), change(ADDED, second), change(UPDATED, third))
    assert [delta.obj for delta in pending.pop_batch()] == [first, second]
    assert [delta.obj for delta in pending.pop_batch()] == [third]
    assert pending.pop_batch() == []


def test_a_replacement_and_a_bookmark_stand_alone():
    pending = queue(
        change(ADDED, obj("a")),
        replaced(obj("b")),
        Delta(BOOKMARK, None, (), "7"),
        change(ADDED, obj("c")),
    )
    kinds = []
    while batch := pending.pop_batch():
        kinds.append([delta.type for delta in batch])
    assert kinds == [[ADDED], [REPLACED_ALL], [BOOKMARK], [ADDED]]


def test_a_batch_has_at_most_a_thousand_deltas():
    pending = queue(*(change(ADDED, obj(f"o{number}")) for number in range(BATCH_MAX + 1)))
    assert len(pending.pop_batch()) == BATCH_MAX


def test_changes_reach_the_store_and_the_handlers():
    store = Indexer()
    one, two = obj("a", 1), obj("a", 2)
    assert apply([change(ADDED, one)], store, initial=False) == [Notification(None, one)]
    assert apply([change(UPDATED, two)], store, initial=False) == [Notification(one, two)]
    assert store.resource_version == "2"
    gone = obj("a", 3)
    assert apply([change(DELETED, gone)], store, initial=False) == [Notification(gone, None)]
    assert len(store) == 0


def test_a_bookmark_only_moves_the_version():
    store = Indexer()
    assert apply([Delta(BOOKMARK, None, (), "7")], store, initial=False) == []
    assert store.resource_version == "7"


def test_the_first_list_is_told_as_initial_adds():
    made = obj("a")
    (told,) = apply([replaced(made)], Indexer(), initial=True)
    assert told == Notification(None, made, initial=True)


def test_a_relist_tells_what_was_missed():
    store = Indexer()
    kept, changed, missed = obj("kept", 1), obj("changed", 2), obj("missed", 3)
    store.replace([kept, changed, missed])
    newer, fresh = obj("changed", 8), obj("fresh", 7)
    told = apply([replaced(fresh, newer, kept)], store, initial=False)
    assert told == [
        Notification(missed, None, final_state_unknown=True),
        Notification(None, fresh),
        Notification(changed, newer),
    ]
    assert store.resource_version == "9"


def test_delete_and_create_missed_by_the_watch_come_as_one_update():
    store = Indexer()
    old, new = obj("a", 1, uid="u1"), obj("a", 8, uid="u2")
    store.replace([old])
    assert apply([replaced(new)], store, initial=False) == [Notification(old, new)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from([ADDED, UPDATED, DELETED]), st.sampled_from("abc")),
            st.tuples(st.just(REPLACED_ALL), st.frozensets(st.sampled_from("abc"))),
        )
    )
)
def test_handlers_that_follow_notifications_hold_what_the_store_holds(changes):
    """A handler that keeps its own copy ends up with the store's content, whatever was batched."""
    pending = DeltaQueue()
    for version, (kind, about) in enumerate(changes, 1):
        if kind == REPLACED_ALL:
            pending.add(
                replaced(*(obj(name, version) for name in sorted(about)), version=str(version))
            )
        else:
            pending.add(change(kind, obj(about, version)))
    store = Indexer()
    mirror = {}
    while batch := pending.pop_batch():
        for told in apply(batch, store, initial=False):
            if told.new is None:
                mirror.pop(told.old.key, None)
            else:
                assert mirror.get(told.new.key) is told.old
                mirror[told.new.key] = told.new
    assert mirror == {each.key: each for each in store}
