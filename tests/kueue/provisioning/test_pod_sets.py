"""Which pods a request asks for."""

from __future__ import annotations

import pytest

from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.provisioning.pod_sets import is_needed, requested
from tests.kueue.objects import pod_set
from tests.kueue.provisioning.objects import config, reserved


def counts(work, **spec):
    return {each.pod_set["name"]: each.count for each in requested(work, config(**spec))}


def with_count(work, name, count):
    for each in work["status"]["admission"]["podSetAssignments"]:
        if each["name"] == name:
            each["count"] = count
            if count is None:
                del each["count"]
    return work


def two(second=None, **fields):
    first = pod_set("one", 2, {"cpu": "1"})
    return reserved(pod_sets=[first, second or pod_set("two", 3, {"cpu": "1"}, **fields)])


def test_the_admitted_count_goes_before_that_of_the_pod_set():
    assert counts(with_count(two(), "two", 1)) == {"one": 2, "two": 1}
    assert counts(with_count(two(), "two", None)) == {"one": 2, "two": 3}


def test_pod_sets_without_pods_are_left_out():
    assert counts(with_count(two(), "one", 0)) == {"two": 3}
    assert counts(two(pod_set("two", 0, {"cpu": "1"}))) == {"one": 2}
    assert not is_needed(reserved(pod_sets=[pod_set(count=0)]), config())


@pytest.mark.parametrize("kind", ["requests", "limits"])
@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_with_managed_resources_only_their_users_are_asked_for(kind, where):
    container = {"name": "c", "resources": {kind: {"gpu": "1"}}}
    work = reserved(
        pod_sets=[pod_set("plain", 2, {"cpu": "1"}), pod_set("gpu", 1, spec={where: [container]})]
    )
    assert counts(work, managedResources=["gpu"]) == {"gpu": 1}
    assert is_needed(work, config(managedResources=["gpu"]))
    assert not is_needed(work, config(managedResources=["other"]))


def test_an_admission_that_lacks_a_pod_set_is_an_error():
    work = two()
    del work["status"]["admission"]["podSetAssignments"][0]
    with pytest.raises(ReconcileError, match='assignments: missing assignment for PodSet "one"'):
        is_needed(work, config())
    with pytest.raises(ReconcileError, match="inconsistent podSet assignments"):
        requested(work, config())
    # a pod set with pods that comes first is enough to know
    del work["spec"]["podSets"][0]
    assert is_needed(work, config())


def test_identical_templates_are_merged_by_value():
    policy = {"podSetMergePolicy": "IdenticalPodTemplates"}
    assert counts(two()) == {"one": 2, "two": 3}
    assert counts(two(), **policy) == {"one": 5}
    assert counts(two(pod_set("two", 3, {"cpu": "1000m"})), **policy) == {"one": 5}
    assert counts(two(pod_set("two", 3, {"cpu": "2"})), **policy) == {"one": 2, "two": 3}


@pytest.mark.parametrize(
    ("spec", "merged"),
    [
        (
            {"containers": [{"name": "x", "image": "y", "resources": {"requests": {"cpu": 1}}}]},
            True,
        ),
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}, False),
        ({"restartPolicy": "Never"}, True),
        ({"nodeSelector": {"a": "b"}}, False),
        ({"tolerations": [{"key": "a"}]}, False),
        ({"affinity": {"nodeAffinity": {}}}, False),
        ({"resourceClaims": [{"name": "a"}]}, False),
        ({"initContainers": [{"name": "i"}]}, False),
        ({"resources": {"requests": {"cpu": "1"}}}, False),
    ],
)
def test_equal_scheduling_requirements_are_merged_whatever_else_differs(spec, merged):
    work = two(pod_set("two", 3, {"cpu": "1"}, spec=spec))
    found = counts(work, podSetMergePolicy="IdenticalWorkloadSchedulingRequirements")
    assert found == ({"one": 5} if merged else {"one": 2, "two": 3})
    assert counts(work, podSetMergePolicy="IdenticalPodTemplates") == {"one": 2, "two": 3}
