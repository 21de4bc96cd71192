"""Selectors as long as a request's line: what an event costs does not go by their length."""

import pytest

from controlplane.apiserver.kinds import selectable
from controlplane.apiserver.schema import work
from tests.apiserver.world import World, pod

HIDDEN = ",".join(f"!k{number}" for number in range(20_000))
OTHERS = ",".join(f"metadata.name!=p{number}" for number in range(20_000))


@pytest.fixture
def world():
    return World()


def names(watcher):
    return [event.object.tree["metadata"]["name"] for event in watcher.buffer]


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", [{"labelSelector": HIDDEN}, {"fieldSelector": OTHERS}], ids=["labels", "fields"]
)
def test_an_event_asks_once_for_each_label_and_field(world, query, monkeypatch):
    looked = []
    value = selectable._value
    monkeypatch.setattr(
        selectable,
        "_value",
        lambda tree, path, kind: looked.append(path) or value(tree, path, kind),
    )
    watcher = world.watch("pods", **query)
    for name, labels in (("a", {}), ("p7", {"k7": ""}), ("b", {"app": "a"})):
        assert world.create("pods", pod(name, labels=labels)).code == 201
    assert names(watcher) == ["a", "b"]
    assert len(looked) <= 3


def test_a_field_that_must_have_two_values_matches_nothing(world):
    watcher = world.watch("pods", fieldSelector="status.phase=Pending,status.phase=Running")
    only = world.watch("pods", fieldSelector="status.phase=Pending,status.phase!=Running")
    world.create("pods", pod("a"))
    assert names(watcher) == []
    assert names(only) == ["a"]


def test_reading_a_selector_counts_its_letters(world):
    short, long = work.Budget(), work.Budget()
    for budget, text in ((short, "!k1"), (long, HIDDEN)):
        work.on(budget)
        selectable.label_selector(text)
    work.on(work.FREE)
    assert short.left - long.left >= len(HIDDEN) - 10
