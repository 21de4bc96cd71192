"""The file of node groups: defaults, and one line for what is wrong."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from controlplane.autoscaler.cloud.file import load, node_groups_of
from controlplane.autoscaler.cloud.specs import Failure
from controlplane.autoscaler.options import MINUTE, SECOND
from controlplane.errors import UsageError

GROUP: dict[str, Any] = {
    "name": "pool",
    "maxSize": 3,
    "template": {"status": {"capacity": {"cpu": 4, "memory": "16Gi"}}},
}


def file_of(**more: Any) -> dict[str, Any]:
    return {"nodeGroups": [{**deepcopy(GROUP), **more}]}


def test_what_a_group_does_not_say_has_defaults():
    (group,) = node_groups_of(file_of(), "f").groups
    assert (group.min_size, group.max_size, group.size) == (0, 3, 0)
    assert group.provision_time == MINUTE
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert group.template["status"] == {"capacity": capacity, "allocatable": capacity}


def test_a_group_with_everything():
    tree = file_of(
        minSize=1,
        size=2,
        provisionTime="90s",
        provisionJitter="30s",
        options={"scaleDownUnneededTime": "3m", "zeroOrMaxNodeScaling": True},
        failures=[{"type": "CreationError", "count": 2}, {"type": "Lost", "after": "1h"}],
    )
    tree["nodeGroups"][0]["template"]["status"]["allocatable"] = {"cpu": "3500m"}
    (group,) = node_groups_of(tree, "f").groups
    assert (group.min_size, group.size) == (1, 2)
    assert (group.provision_time, group.jitter) == (90 * SECOND, 30 * SECOND)
    assert (group.options.unneeded_time, group.options.zero_or_max) == (3 * MINUTE, True)
    assert group.template["status"]["allocatable"]["cpu"] == "3500m"
    assert group.template["status"]["allocatable"]["memory"] == "16Gi"
    text = "the instance could not be created"
    created, lost = group.failures
    assert created == Failure("CreationError", text, "OutOfResources", "STOCKOUT", count=2)
    assert lost == Failure("Lost", after=60 * MINUTE)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ([], "f: []: expected a mapping"),
        ({}, "f: nodeGroups: None: expected one node group or more"),
        (None, "f: the file is empty: expected nodeGroups"),
        ({"nodeGroup": []}, "f: no field 'nodeGroup'; did you mean nodeGroups?"),
        (file_of(name="Pool"), "f: nodeGroups[0].name: 'Pool': expected lower-case letters"),
        (file_of(maxSize=None), "f: nodeGroups[0].maxSize: None: expected a whole number"),
        (file_of(minSize=4), "f: nodeGroups[0].minSize: 4: expected at most maxSize (3)"),
        (file_of(size=4), "f: nodeGroups[0].size: 4: expected at most maxSize (3)"),
        (file_of(max=4), "f: nodeGroups[0]: no field 'max'; did you mean maxSize?"),
        (file_of(provisionTime="soon"), "nodeGroups[0].provisionTime: 'soon': expected a duration"),
        (file_of(template=None), "f: nodeGroups[0].template: None: expected a mapping"),
        (
            file_of(template={"status": {"capacity": {"cpu": 1}}}),
            "f: nodeGroups[0].template.status.capacity.memory: None: expected a quantity",
        ),
        (
            file_of(template={"status": {"capacity": {"cpu": "much", "memory": "1Gi"}}}),
            "template.status.capacity.cpu: 'much': expected a quantity such as 4 or 16Gi",
        ),
        (
            file_of(template={"metadata": {"labels": {"a": 1}}, "status": {}}),
            "nodeGroups[0].template.status.capacity.cpu: None",
        ),
        (
            file_of(options={"price": 1}),
            "f: nodeGroups[0].options: no field 'price'",
        ),
        (
            file_of(failures=[{"type": "Sad"}]),
            "nodeGroups[0].failures[0].type: 'Sad': expected Refused, CreationError",
        ),
        (
            file_of(failures=[{"type": "Slow"}]),
            "nodeGroups[0].failures[0].after: None: expected a duration",
        ),
        (
            file_of(failures=[{"type": "Refused", "errorCode": "X"}]),
            "failures[0].errorCode: 'X': expected it only for CreationError",
        ),
        (
            {"nodeGroups": [GROUP, GROUP]},
            "f: nodeGroups[1].name: 'pool': expected each name once",
        ),
        (
            {"nodeGroups": [GROUP], "flags": {"expander": "least-waste,price"}},
            "f: nodeGroups[0].price: None: expected the price of an hour of a node",
        ),
        (file_of(price=-1), "f: nodeGroups[0].price: -1: expected a number, 0 or more"),
        (
            {"nodeGroups": [GROUP], "podPrices": {"gpu": 1}},
            "f: podPrices: no field 'gpu'",
        ),
        (
            {"nodeGroups": [GROUP], "flags": {"v": 4}},
            "f: flags: cluster-autoscaler's flag v is not supported",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_field_and_expectation(tree, text):
    with pytest.raises(UsageError) as error:
        node_groups_of(tree, "f")
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"none\.yaml"):
        load(tmp_path / "none.yaml")
