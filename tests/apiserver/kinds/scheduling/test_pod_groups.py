from __future__ import annotations

from controlplane.apiserver.kinds.registry import kind_of
from tests.apiserver.kinds.scheduling.pod_group_parts import (
    ALL,
    context,
    created,
    strategy,
    texts,
    updated,
)

GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "Pod"}
NONE: frozenset[str] = frozenset()


def test_a_group_is_basic_or_a_gang_of_at_least_one() -> None:
    assert created("podgroups", GANG) == (GANG, [])
    assert created("podgroups", {"schedulingPolicy": {"basic": {}}})[1] == []
    assert created("podgroups", {"schedulingPolicy": {}})[1] == [
        'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'
    ]
    both = {"basic": {}, "gang": {"minCount": 1}}
    assert created("podgroups", {"schedulingPolicy": both})[1] == [
        'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'
    ]
    place = "spec.schedulingPolicy.gang.minCount"
    for count, text in (
        (0, f"{place}: Required value"),
        (-2, f"{place}: Invalid value: -2: must be greater than or equal to 1"),
    ):
        assert created("podgroups", {"schedulingPolicy": {"gang": {"minCount": count}}})[1] == [
            text
        ]


def test_fields_of_disabled_gates_are_dropped_unless_the_stored_group_uses_them() -> None:
    full = {
        **GANG,
        "priority": 7,
        "priorityClassName": "high",
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "resourceClaims": [{"name": "c", "resourceClaimName": "x"}],
    }
    assert created("podgroups", full) == (full, [])
    assert created("podgroups", full, NONE) == ({"schedulingPolicy": GANG["schedulingPolicy"]}, [])
    assert updated("podgroups", full, full, NONE) == (full, [])
    assert updated("podgroups", {**full, "priority": 8}, full, NONE)[1] == [
        "spec.priority: Forbidden"
    ]


def test_nothing_of_a_group_may_change() -> None:
    for key, value in (
        ("schedulingPolicy", {"basic": {}}),
        ("priority", 4),
        ("disruptionMode", "PodGroup"),
        ("priorityClassName", "low"),
        ("resourceClaims", [{"name": "c", "resourceClaimName": "x"}]),
        ("podGroupTemplateRef", {"workload": {"workloadName": "w"}}),
    ):
        assert updated("podgroups", {**GANG, key: value}, GANG)[1] == [
            f"spec.{key}: Invalid value: null: field is immutable"
        ]


def test_limits_of_a_group() -> None:
    claim = {"name": "c", "resourceClaimName": "x"}
    spec = {
        **GANG,
        "disruptionMode": "All",
        "priority": 1_000_000_001,
        "priorityClassName": "a" * 254,
        "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]},
        "resourceClaims": [claim, claim],
    }
    assert created("podgroups", spec)[1] == [
        "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        'spec.resourceClaims[1]: Duplicate value: {"name":"c","resourceClaimName":"x"}',
        'spec.disruptionMode: Unsupported value: "All": supported values: "Pod", "PodGroup"',
        f'spec.priorityClassName: Invalid value: "{"a" * 254}": must be no more than 253 bytes',
        "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
    ]
    assert created("podgroups", {**GANG, "resourceClaims": [claim] * 5})[1] == [
        "spec.resourceClaims: Too many: 5: must have at most 4 items"
    ]


def test_status_names_claims_of_the_group() -> None:
    rules, ctx = strategy("podgroups"), context(ALL)
    old = {
        "metadata": {},
        "spec": {**GANG, "resourceClaims": [{"name": "c", "resourceClaimName": "x"}]},
    }
    listed = [{"name": "c", "resourceClaimName": "Bad"}, {"name": "d"}]
    new = {**old, "status": {"resourceClaimStatuses": listed}}
    first, second = texts(rules.validate_status_update(ctx, new, old))
    assert first.startswith("status.resourceClaimStatuses[1].name: Invalid value: ")
    assert second.startswith("status.resourceClaimStatuses[0].resourceClaimName: Invalid value: ")
    assert rules.validate_status_update(ctx, new, new)[1:] == []
    without = {**old, "spec": GANG}
    kept = rules.prepare_status_update(context(NONE), {**without, "status": new["status"]}, without)
    assert kept["status"] == {}


def test_columns_of_a_group() -> None:
    row = kind_of("scheduling.k8s.io", "podgroups").row
    assert row is not None
    meta = {"name": "g", "creationTimestamp": "1970-01-01T00:00:00Z"}
    tree = {"metadata": meta, "spec": GANG}
    assert row(tree, 5 * 10**9) == ["g", "Gang", "<none>", "Pending", "5s"]
    condition = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable"}
    spec = {
        "schedulingPolicy": {"basic": {}},
        "podGroupTemplateRef": {"workload": {"workloadName": "w"}},
    }
    tree = {"metadata": meta, "spec": spec, "status": {"conditions": [condition]}}
    assert row(tree, 0)[1:4] == ["Basic", "w", "Unschedulable"]
    condition["status"] = "True"
    assert row(tree, 0)[3] == "Scheduled"
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    tree["status"] = {"conditions": [condition, disrupted]}
    assert row(tree, 0)[3] == "PreemptionByScheduler"
