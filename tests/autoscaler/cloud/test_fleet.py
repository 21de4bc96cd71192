"""The machines of the emulated cloud: sizes, instances, failures."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.autoscaler.cloud.fleet import MOST_EXPLORED, Fleet
from controlplane.autoscaler.cloud.specs import Failure, GroupSpec
from controlplane.autoscaler.options import MINUTE, SECOND

TEMPLATE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"labels": {"zone": "a"}, "annotations": {}},
    "spec": {},
    "status": {"capacity": {}, "allocatable": {}},
}


def first(_kind: str, _options: int, _label: str) -> int:
    return 0


def last(_kind: str, options: int, _label: str) -> int:
    return options - 1


def fleet(choose=first, **more: Any) -> Fleet:
    made = Fleet([GroupSpec("g", TEMPLATE, 5, **more)], choose)
    for boot in made.begin():
        made.runs(boot.name)
    return made


def states(made: Fleet) -> list[tuple[str, str]]:
    (group,) = made.describe().groups
    return [(each.id, each.state) for each in group.instances]


def target(made: Fleet) -> int:
    return made.describe().groups[0].target


def test_a_group_grows_by_instances_that_come_after_their_time():
    made = fleet(size=1, provision_time=MINUTE)
    error, boots = made.increase("g", 2)
    assert error == ""
    assert [(each.name, each.after) for each in boots] == [("g-2", MINUTE), ("g-3", MINUTE)]
    assert boots[0].tree["spec"]["providerID"] == "emulated://g-2"
    assert boots[0].tree["metadata"]["labels"]["kubernetes.io/hostname"] == "g-2"
    assert target(made) == 3
    assert made.runs("g-2")
    assert not made.runs("g-2")
    assert [state for _, state in states(made)] == ["Running", "Running", "Creating"]


def test_sizes_are_bounded_as_upstream_says():
    made = fleet(size=2, min_size=1)
    assert made.increase("g", 0)[0] == "size increase must be positive"
    assert made.increase("g", 4)[0] == "size increase too large, desired: 6 max: 5"
    assert made.increase("h", 1)[0] == "node group h not found"
    told = "can't delete nodes because nodegroup size would go below min size"
    assert made.delete("g", ["g-1", "g-2"]) == (told, [])
    assert made.delete("g", ["g-1"]) == ("", ["g-1"])
    assert made.delete("g", ["g-2"])[0] == "min size reached, nodes will not be deleted"
    assert made.delete("g", ["other"])[0].startswith("can't delete node 'other'")


def test_only_instances_that_have_not_come_can_be_dropped():
    made = fleet(size=1)
    made.increase("g", 2)
    told = "attempt to delete existing nodes, targetSize: 3 delta: -3 existingNodes: 1"
    assert made.decrease("g", 3)[0] == told
    assert made.decrease("g", 1) == ("", ["g-3"])
    assert target(made) == 2
    assert not made.runs("g-3")


def test_a_deleted_instance_is_deleting_until_it_is_gone():
    made = fleet(size=1)
    made.delete("g", ["emulated://g-1"])
    assert states(made) == [("emulated://g-1", "Deleting")]
    assert made.gone("emulated://g-1") == (True, None)
    assert made.gone("g-1") == (False, None)
    assert states(made) == []


@pytest.mark.parametrize("replaces", [True, False])
def test_a_lost_instance_is_replaced_unless_the_group_says_no(replaces):
    made = fleet(size=1, replaces_lost=replaces)
    known, successor = made.gone("g-1")
    assert known
    assert (successor is not None) == replaces
    assert target(made) == 1
    assert states(made) == ([("emulated://g-2", "Creating")] if replaces else [])


def test_failures_happen_as_often_as_they_say():
    made = fleet(failures=(Failure("Refused", "no", count=1), Failure("NeverRegisters", count=1)))
    assert made.increase("g", 2) == ("no", [])
    assert target(made) == 0
    _, boots = made.increase("g", 2)
    assert [each.registers for each in boots] == [False, True]


def test_a_creation_error_is_reported_with_the_instance():
    failure = Failure("CreationError", "none left", "OutOfResources", "STOCKOUT", count=1)
    made = fleet(failures=(failure,))
    _, boots = made.increase("g", 2)
    assert [each.name for each in boots] == ["g-2"]
    (failed, _) = made.describe().groups[0].instances
    assert (failed.state, failed.error_code, failed.failed) == ("Creating", "STOCKOUT", True)


def test_slow_and_lost_instances():
    slow = fleet(provision_time=SECOND, failures=(Failure("Slow", after=MINUTE),))
    assert slow.increase("g", 1)[1][0].after == MINUTE + SECOND
    lost = fleet(failures=(Failure("Lost", after=MINUTE),))
    assert lost.increase("g", 1)[1][0].lives == MINUTE


def test_explored_failures_and_jitter_are_choices_of_the_run():
    failure = Failure("Refused", "no", explored=True)
    calm = fleet(first, jitter=30 * SECOND, failures=(failure,))
    error, (boot,) = calm.increase("g", 1)
    assert (error, boot.after) == ("", MINUTE)
    wild = fleet(last, jitter=30 * SECOND, failures=(failure,))
    errors = [wild.increase("g", 1)[0] for _ in range(MOST_EXPLORED + 1)]
    assert errors == ["no"] * MOST_EXPLORED + [""]
    assert wild.increase("g", 1)[1][0].after == MINUTE + 30 * SECOND
