"""Faults of a driver: which call they meet, and what they do to answers."""

from __future__ import annotations

from controlplane.controllers.storage.csi.faults import Fault, Faults, overridden
from controlplane.controllers.storage.csi.messages import CsiReply


def test_the_youngest_fault_is_asked_first_and_counts():
    faults = Faults()
    faults.add(Fault("A", code="Internal"))
    faults.add(Fault("A", count=1, code="Aborted"))
    taken = [faults.take("A") for _ in range(3)]
    assert [fault.code for fault in taken] == ["Aborted", "Internal", "Internal"]
    assert faults.take("B") is None
    faults.clear()
    assert faults.take("A") is None


def test_the_first_calls_may_be_spared():
    faults = Faults()
    faults.add(Fault("A", skip=2, count=1))
    assert [faults.take("A") is not None for _ in range(4)] == [False, False, True, False]


def test_answers_are_overridden_field_by_field():
    reply = CsiReply(response={"list": [{"x": 1, "y": 1}, {"x": 2, "y": 2}], "gone": 1})
    changed = overridden(reply, {"list": [{"$index": 1, "set": {"y": None}}], "gone": None})
    assert changed.response == {"list": [{"x": 1, "y": 1}, {"x": 2}]}
    assert overridden(reply, {"list": [{"$reverse": True}]}).response["list"][0]["x"] == 2
    each = overridden(reply, {"list": [{"$each": {"x": 0}}]}).response["list"]
    assert [item["x"] for item in each] == [0, 0]
