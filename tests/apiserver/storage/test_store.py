import pytest

from controlplane.api.object import Object
from controlplane.api.stored import BLOCK, Resting
from controlplane.apiserver.storage.store import AWAKE, CompactedError, Store


def named(name, value=0):
    return Object({"metadata": {"name": name}, "value": value})


def test_every_write_takes_the_next_revision_of_the_whole_store():
    store = Store()
    pods, nodes = store.keyspace("/pods/"), store.keyspace("/nodes/")
    first = pods.put("a", named("a"))
    second = nodes.put("n", named("n"))
    third = pods.delete("a")
    assert (second, third) == (first + 1, first + 2)
    assert store.revision == third


def test_a_write_that_expects_another_revision_changes_nothing():
    space = Store().keyspace("/pods/")
    revision = space.put("a", named("a", 1))
    assert space.put("a", named("a", 2), expected=revision - 1) is None
    assert space.delete("a", expected=revision - 1) is None
    assert space.get("a").object.tree["value"] == 1
    assert space.put("a", named("a", 3), expected=revision) == revision + 1


def test_reads_at_a_revision_see_the_past():
    store = Store()
    space = store.keyspace("/pods/")
    space.put("a", named("a", 1))
    then = space.put("b", named("b", 1))
    space.put("a", named("a", 2))
    space.delete("b")
    assert [(key, obj.tree["value"]) for key, obj in space.at(then)] == [("a", 1), ("b", 1)]
    assert [key for key, _ in space.items()] == ["a"]


def test_compaction_forgets_events_and_old_reads():
    store = Store()
    space = store.keyspace("/pods/")
    first = space.put("a", named("a", 1))
    space.put("a", named("a", 2))
    assert len(space.events_after(first)) == 1
    store.compact(store.revision)
    with pytest.raises(CompactedError):
        space.events_after(first - 1)
    with pytest.raises(CompactedError):
        space.at(first)


def test_history_stays_bounded():
    store = Store(history_limit=100)
    space = store.keyspace("/pods/")
    for value in range(1000):
        space.put("a", named("a", value))
    with pytest.raises(CompactedError):
        space.events_after(1)


def test_events_but_the_newest_rest_as_bytes_and_read_the_same():
    store = Store()
    space = store.keyspace("/registry/events/")
    trees = [
        {"metadata": {"name": f"e-{number}"}, "count": number}
        for number in range(AWAKE + BLOCK + 5)
    ]
    for number, tree in enumerate(trees):
        space.put(f"default/e-{number}", Object(tree))
    resting = [type(entry.object) is Resting for entry in space.entries.values()]
    assert resting == [True] * BLOCK + [False] * (AWAKE + 5)
    assert [entry.object.tree for entry in space.entries.values()] == trees
    others = store.keyspace("/registry/pods/")
    for number in range(AWAKE + BLOCK + 5):
        others.put(f"default/p-{number}", Object({"metadata": {"name": "p"}}))
    assert not any(type(entry.object) is Resting for entry in others.entries.values())
