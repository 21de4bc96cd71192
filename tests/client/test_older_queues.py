"""What the three generations of the delta queue make of the same news (facts/apiserver, section 5.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.object import Object
from controlplane.client.deltas import ADDED, DELETED, UPDATED, Delta, Notification, apply
from controlplane.client.features import ClientFeatures, upstream, with_gates
from controlplane.client.indexer import Indexer
from controlplane.client.older_queues import queue_of
from controlplane.errors import UsageError
from controlplane.gates import fix_gates
from tests.client.objects import obj

GENERATIONS = {
    "DeltaFIFO": ClientFeatures(in_order_informers=False),
    "RealFIFO": ClientFeatures(atomic_fifo=False, batch_process=False),
    "AtomicFIFO": ClientFeatures(),
}
every = pytest.mark.parametrize("generation", GENERATIONS)
older = pytest.mark.parametrize("generation", ["DeltaFIFO", "RealFIFO"])


class Cache:
    """A queue and the store behind it."""

    def __init__(self, generation: str, *held: Object, without: tuple[str, ...] = ()) -> None:
        features = GENERATIONS[generation]
        if without:
            features = ClientFeatures(in_order_informers=False, fixes=fix_gates(without=without))
        self.store = Indexer()
        self.queue = queue_of(features, self.store)
        self.told: list[str] = []
        self.queue.replace(held, "1")
        self.drain()
        self.told.clear()

    def hear(self, kind: str, what: Object) -> None:
        self.queue.add(Delta(kind, what, (), str(what.resource_version)))

    def pop(self) -> list[str]:
        before = self.queue.synced
        told = [
            shown(each) for each in apply(self.queue.pop_batch(), self.store, initial=not before)
        ]
        self.told += told
        return told

    def drain(self) -> list[str]:
        while self.queue:
            self.pop()
        return self.told

    def keys(self) -> list[str]:
        return sorted(each.name for each in self.store)


def shown(told: Notification) -> str:
    if told.new is None:
        assert told.old is not None
        return f"delete {told.old.name}{' (unknown)' if told.final_state_unknown else ''}"
    if told.old is None:
        return f"add {told.new.name}"
    other = "" if told.old.uid == told.new.uid else " (other uid)"
    return f"update {told.new.name}{other}"


@pytest.mark.parametrize(
    ("release", "generation", "streams"),
    [
        ("1.30", "DeltaFIFO", False),
        ("1.33", "RealFIFO", False),
        ("1.35", "RealFIFO", True),
        ("1.36", "AtomicFIFO", True),
    ],
)
def test_a_release_has_the_library_of_its_time(release, generation, streams):
    features = upstream(release)
    assert features.generation == generation
    assert features.watch_list_client is streams


def test_feature_gates_choose_the_queue_by_upstream_s_names():
    assert upstream("1.36", {"AtomicFIFO": False}).generation == "RealFIFO"
    off = {"AtomicFIFO": False, "InOrderInformers": False}
    assert with_gates(ClientFeatures(), off).generation == "DeltaFIFO"
    with pytest.raises(UsageError, match="no client feature gate 'Nonsense'"):
        upstream("1.36", {"Nonsense": True})
    with pytest.raises(UsageError, match="needs InOrderInformers"):
        upstream("1.30", {"AtomicFIFO": True})


@every
def test_a_relist_after_delete_and_recreate_is_one_update_of_two_uids(generation):
    cache = Cache(generation, obj("a", 1, uid="u1"))
    cache.queue.replace((obj("a", 5, uid="u2"),), "5")
    assert cache.drain() == ["update a (other uid)"]


@every
def test_what_a_list_no_longer_has_is_deleted_with_its_last_known_state(generation):
    cache = Cache(generation, obj("a", 1), obj("b", 1))
    cache.queue.replace((obj("b", 1),), "5")
    assert cache.drain() == ["delete a (unknown)"]
    assert cache.keys() == ["b"]


def test_a_queued_delete_and_create_of_one_key_are_popped_together_by_delta_fifo_only():
    def popped(generation: str) -> list[list[str]]:
        cache = Cache(generation, obj("a", 1, uid="u1"))
        cache.hear(DELETED, obj("a", 2, uid="u1"))
        cache.hear(ADDED, obj("a", 3, uid="u2"))
        found = []
        while cache.queue:
            found.append(cache.pop())
        return found

    assert popped("DeltaFIFO") == [["delete a", "add a"]]
    assert popped("RealFIFO") == popped("AtomicFIFO") == [["delete a"], ["add a"]]


def test_delta_fifo_tells_of_a_key_at_its_first_place_in_line_the_others_in_order_of_arrival():
    def told(generation: str) -> list[str]:
        cache = Cache(generation, obj("a", 1))
        cache.hear(UPDATED, obj("a", 2))
        cache.hear(ADDED, obj("b", 3))
        cache.hear(DELETED, obj("a", 4))
        return cache.drain()

    assert told("DeltaFIFO") == ["update a", "delete a", "add b"]
    assert told("RealFIFO") == told("AtomicFIFO") == ["update a", "add b", "delete a"]


def test_a_relist_is_one_transaction_only_with_atomic_fifo():
    def seen_between(generation: str) -> list[list[str]]:
        cache = Cache(generation, obj("a", 1), obj("b", 1))
        cache.queue.replace((obj("c", 5), obj("d", 5)), "5")
        states = []
        while cache.queue:
            cache.pop()
            states.append(cache.keys())
        return states

    assert seen_between("AtomicFIFO") == [["c", "d"]]
    assert seen_between("RealFIFO") == [["b"], [], ["c"], ["c", "d"]]
    # New objects stand before the deletions of old ones.
    assert seen_between("DeltaFIFO") == [
        ["a", "b", "c"],
        ["a", "b", "c", "d"],
        ["b", "c", "d"],
        ["c", "d"],
    ]


@older
def test_synced_means_that_the_whole_first_list_was_popped(generation):
    queue = queue_of(GENERATIONS[generation], Indexer())
    assert not queue.synced
    queue.replace((obj("a", 1), obj("b", 1)), "1")
    queue.pop_batch()
    assert not queue.synced
    queue.pop_batch()
    assert queue.synced


@older
def test_an_empty_first_list_is_synced_at_once(generation):
    queue = queue_of(GENERATIONS[generation], Indexer())
    queue.replace((), "1")
    assert queue.synced


def test_batches_of_real_fifo_have_different_keys():
    queue = queue_of(ClientFeatures(atomic_fifo=False), Indexer())
    for name, version in (("a", 1), ("b", 2), ("a", 3)):
        queue.add(Delta(UPDATED, obj(name, version), (), str(version)))
    assert [len(queue.pop_batch()), len(queue.pop_batch())] == [2, 1]


def test_115620_an_addition_still_queued_whose_deletion_was_missed():
    """O is created (queued), the watch breaks, O is deleted, the relist has no O."""

    def left(*without: str) -> list[str]:
        cache = Cache("DeltaFIFO", without=without)
        cache.hear(ADDED, obj("o", 2))
        cache.queue.replace((), "5")
        cache.drain()
        return cache.keys()

    assert left("115620") == ["o"], "before the fix it stays in the cache for ever"
    assert left() == []
    for generation in ("RealFIFO", "AtomicFIFO"):
        cache = Cache(generation)
        cache.hear(ADDED, obj("o", 2))
        cache.queue.replace((), "5")
        cache.drain()
        assert cache.keys() == []


def test_83911_an_object_listed_while_its_deletion_is_queued():
    """X's deletion is queued, the connection drops, X is created again, the relist has the new X."""

    def left(*without: str) -> list[str]:
        cache = Cache("DeltaFIFO", obj("x", 1, uid="u1"), without=without)
        cache.hear(DELETED, obj("x", 2, uid="u1"))
        cache.queue.replace((obj("x", 5, uid="u2"),), "5")
        cache.drain()
        return [each.uid for each in cache.store]

    assert left("83911") == [], "before the fix the new object was never heard of"
    assert left() == ["u2"]


def test_86015_a_change_that_only_a_relist_found_out():
    def told(*without: str) -> list[str]:
        cache = Cache("DeltaFIFO", obj("x", 1), without=without)
        cache.queue.replace((obj("x", 5), obj("y", 5)), "5")
        return cache.drain()

    assert told("86015") == ["add y"], "before the fix it passed for a resync, which nobody had due"
    assert told() == ["update x", "add y"]


def test_two_deletions_in_a_row_are_one_and_the_better_known_stays():
    cache = Cache("DeltaFIFO", obj("a", 1))
    cache.queue.replace((), "5")
    cache.hear(DELETED, obj("a", 4))
    assert cache.drain() == ["delete a"]


def test_the_deletion_of_what_delta_fifo_never_knew_is_dropped():
    cache = Cache("DeltaFIFO")
    cache.hear(DELETED, obj("a", 4))
    assert not cache.queue


@every
def test_a_resync_tells_of_what_the_store_holds(generation):
    cache = Cache(generation, obj("a", 1), obj("b", 1))
    cache.queue.resync()
    assert cache.drain() == ["update a", "update b"]


@older
def test_a_resync_leaves_out_keys_with_news(generation):
    """Otherwise a deleted object would come back from the old cache (issue 26082)."""
    cache = Cache(generation, obj("a", 1), obj("b", 1))
    cache.hear(DELETED, obj("a", 2))
    cache.queue.resync()
    assert cache.drain() == ["delete a", "update b"]
    assert cache.keys() == ["b"]


NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.tuples(st.sampled_from(("put", "remove", "relist", "gap", "pop")), st.sampled_from(NAMES)),
    max_size=30,
)


@every
@given(steps=STEPS)
def test_in_the_end_the_store_is_the_last_list_and_what_came_after(generation, steps):
    """Whatever is heard or missed and whenever it is popped; no bug of a fixed queue may leak or lose."""
    cache = Cache(generation)
    truth: dict[str, Object] = {}
    version = 1
    deaf = False
    for action, name in steps:
        version += 1
        if action == "pop":
            if cache.queue:
                cache.pop()
        elif action == "gap":
            deaf = True
        elif action == "relist":
            deaf = False
            cache.queue.replace(tuple(truth.values()), str(version))
        elif action == "put":
            kind = UPDATED if name in truth else ADDED
            uid = truth[name].uid if name in truth else f"u{version}"
            truth[name] = obj(name, version, uid=uid)
            if not deaf:
                cache.hear(kind, truth[name])
        elif name in truth:
            gone = truth.pop(name)
            if not deaf:
                cache.hear(DELETED, obj(name, version, uid=gone.uid))
    if deaf:
        cache.queue.replace(tuple(truth.values()), str(version))
    cache.drain()
    assert {each.name: each.uid for each in cache.store} == {
        name: each.uid for name, each in truth.items()
    }
