"""The tracker patches slices with the taints of rules, tells the queue of differences, and can be overtaken."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.view import GenericView, View
from controlplane.decisions import at_once
from controlplane.scheduler.dra.slice_tracker import STORE, Change, SliceTracker
from controlplane.scheduler.state.listers import MemoryLister

DRIVER = "gpu.example.com"
OWN = {"key": "hot", "effect": "NoSchedule"}


def view(name: str, **spec: Any) -> View:
    return GenericView.from_tree({"metadata": {"name": name}, "spec": spec})


def slice_of(name: str, *devices: dict[str, Any], driver: str = DRIVER) -> View:
    return view(name, driver=driver, pool={"name": f"{name}-pool"}, devices=list(devices))


def rule(name: str, selector: dict[str, str] | None, **taint: str) -> View:
    more = {} if selector is None else {"deviceSelector": selector}
    return view(name, taint={"key": name, "effect": "NoSchedule", **taint}, **more)


class Cluster:
    """Stores of slices and rules, and what the handlers told the queue."""

    def __init__(self, *slices: View) -> None:
        self.slices: MemoryLister[View] = MemoryLister()
        self.rules: MemoryLister[View] = MemoryLister()
        self.tracker = SliceTracker(self.slices, self.rules)
        for each in slices:
            self.put_slice(each)

    def put_slice(self, new: View) -> list[Change]:
        old = self.slices.get("", new.metadata.name)
        self.slices.put(new)
        return self.told(self.tracker.slice_changed(old, new))

    def put_rule(self, new: View) -> list[Change]:
        old = self.rules.get("", new.metadata.name)
        self.rules.put(new)
        return self.told(self.tracker.rule_changed(old, new))

    def drop_rule(self, name: str) -> list[Change]:
        return self.told(self.tracker.rule_changed(self.rules.remove("", name), None))

    @staticmethod
    def told(changes: Any) -> list[Change]:
        return [found for found in map(at_once, changes) if found is not None]

    def taints(self) -> dict[str, list[str]]:
        return {
            f"{tree['metadata']['name']}/{device['name']}": [
                taint["key"] for taint in device.get("taints") or ()
            ]
            for tree in self.tracker.slices()
            for device in tree["spec"]["devices"]
        }


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, ["a/x", "a/y", "b/x", "c/x"]),
        (None, ["a/x", "a/y", "b/x", "c/x"]),
        ({"driver": DRIVER}, ["a/x", "a/y", "b/x"]),
        ({"pool": "a-pool"}, ["a/x", "a/y"]),
        ({"device": "x"}, ["a/x", "b/x", "c/x"]),
        ({"driver": DRIVER, "pool": "b-pool", "device": "x"}, ["b/x"]),
        ({"driver": DRIVER, "pool": "b-pool", "device": "y"}, []),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector, selected):
    cluster = Cluster(
        slice_of("a", {"name": "x"}, {"name": "y"}),
        slice_of("b", {"name": "x"}),
        slice_of("c", {"name": "x"}, driver="other.example.com"),
    )
    cluster.put_rule(rule("r", selector))
    assert [name for name, taints in cluster.taints().items() if taints == ["r"]] == selected
    found = [
        f"{tree['metadata']['name']}/{device['name']}"
        for tree, device, _ in cluster.tracker.tainted()
    ]
    assert found == selected


def test_taints_of_rules_stand_behind_those_of_the_driver_and_go_with_their_rule():
    cluster = Cluster(slice_of("a", {"name": "x", "taints": [OWN]}))
    first = cluster.tracker.slices()[0]
    cluster.put_rule(rule("r", {}))
    cluster.put_rule(rule("s", {}))
    assert cluster.taints() == {"a/x": ["hot", "r", "s"]}
    cluster.drop_rule("r")
    assert cluster.taints() == {"a/x": ["hot", "s"]}
    cluster.drop_rule("s")
    assert cluster.tracker.slices()[0] is first


def test_the_queue_hears_of_rules_only_where_taints_differ_and_of_slices_always():
    known = slice_of("a", {"name": "x"})
    cluster = Cluster(known, slice_of("b"))
    (change,) = cluster.put_rule(rule("r", {}))
    assert change.old is known
    assert change.new is not None
    assert [each["key"] for each in change.new.tree["spec"]["devices"][0]["taints"]] == ["r"]
    assert cluster.put_rule(rule("r", {}, value="")) == []
    assert len(cluster.put_rule(rule("r", {}, value="v"))) == 1
    assert len(cluster.put_rule(rule("r", {"device": "none"}))) == 1
    assert len(cluster.put_slice(slice_of("b"))) == 1


def test_a_slice_that_is_gone_is_told_once():
    gone = slice_of("a", {"name": "x"})
    cluster = Cluster(gone)
    cluster.slices.remove("", "a")
    assert cluster.told(cluster.tracker.slice_changed(gone, None)) == [Change(gone, None)]
    assert cluster.told(cluster.tracker.slice_changed(gone, None)) == []
    assert cluster.tracker.slices() == []


def test_a_handler_that_was_overtaken_stores_a_slice_without_the_rule():
    cluster = Cluster(slice_of("a", {"name": "x"}))
    (slow,) = cluster.tracker.slice_changed(None, slice_of("a", {"name": "x"}))
    assert next(slow) is STORE
    cluster.put_rule(rule("r", {}))
    assert cluster.taints() == {"a/x": ["r"]}
    with pytest.raises(StopIteration):
        next(slow)
    assert cluster.taints() == {"a/x": []}


def test_a_slice_that_grew_before_its_own_handler_came_counts_as_different():
    cluster = Cluster(slice_of("a", {"name": "x"}))
    cluster.slices.put(slice_of("a", {"name": "x"}, {"name": "y"}))
    assert len(cluster.put_rule(rule("r", {"device": "none"}))) == 0
    assert len(cluster.put_rule(rule("s", {"device": "y"}))) == 1
