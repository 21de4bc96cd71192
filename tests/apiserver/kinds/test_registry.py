"""The table of kinds: frozen values, each put together in the room of its group."""

from __future__ import annotations

from inspect import getmodule

import attrs
import pytest

from controlplane.apiserver.kinds.registry import GROUPS, kind_of, kinds_of, strategy_for

ROOMS = {"": "core", "events.k8s.io": "core", "apiextensions.k8s.io": "custom"}
"""The rooms that are not called as the group begins."""
KINDS = [(group, resource) for group in GROUPS for resource in kinds_of(group)]
FUNCTIONS = ("default", "rule", "update_rule", "status_rule", "warn")


@pytest.mark.parametrize("key", KINDS, ids="/".join)
def test_the_rules_of_a_kind_stand_in_the_room_of_its_group(key):
    group, resource = key
    room = f"controlplane.apiserver.kinds.{ROOMS.get(group) or group.partition('.')[0]}."
    strategy = kind_of(group, resource).strategy
    given = [getattr(strategy, name) for name in FUNCTIONS if getattr(strategy, name) is not None]
    modules = {getmodule(function).__name__ for function in given}
    modules |= {type(strategy).__module__} - {"controlplane.apiserver.kinds.strategy"}
    shared = {"controlplane.apiserver.kinds.counted", "controlplane.apiserver.kinds.apps.workloads"}
    assert [name for name in modules - shared if not name.startswith(room)] == []


def test_a_kind_and_its_strategy_stay_as_they_were_made():
    kind = kind_of("coordination.k8s.io", "leases")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        kind.row = None
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        strategy_for("", "pods").graceful = False


def test_a_kind_without_rules_of_its_own_has_those_of_any():
    kind = kind_of("example.com", "things")
    assert kind.row is None
    assert kind.selectable is None
    assert kind.strategy.has_status
    assert strategy_for("example.com", "things") is kind.strategy


def test_fields_to_select_have_the_text_of_an_object_that_lacks_them():
    assert kind_of("", "nodes").selectable == {"metadata.name": "", "spec.unschedulable": "false"}
    jobs = kind_of("batch", "jobs")
    assert jobs.value({"status": {"succeeded": 2}}, "status.successful") == "2"
    events = kind_of("", "events")
    assert events.value({"reportingComponent": "c"}, "source") == "c"
