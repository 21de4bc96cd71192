from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.registry import kind_of
from tests.apiserver.kinds.scheduling.pod_group_parts import created, updated

NONE: frozenset[str] = frozenset()


def template(name: str, **fields: Any) -> dict[str, Any]:
    policy = {"gang": {"minCount": 2}}
    return {"name": name, "schedulingPolicy": policy, "schedulingConstraints": None, **fields}


def test_a_workload_has_one_to_eight_templates_with_names_of_their_own() -> None:
    spec = {"podGroupTemplates": [template("a"), template("b")]}
    assert created("workloads", spec) == (spec, [])
    place = "spec.podGroupTemplates"
    assert created("workloads", {})[1] == [f"{place}: Required value"]
    many = {"podGroupTemplates": [template(f"t{index}") for index in range(9)]}
    assert created("workloads", many)[1] == [f"{place}: Too many: 9: must have at most 8 items"]
    twice = {"podGroupTemplates": [template("a"), template("a")]}
    assert created("workloads", twice)[1] == [
        f'{place}[1]: Duplicate value: {{"name":"a","schedulingPolicy":{{"gang":{{"minCount":2}}}},'
        '"schedulingConstraints":null}'
    ]


def test_templates_and_controller_may_not_change() -> None:
    old = {
        "podGroupTemplates": [template("a")],
        "controllerRef": {"kind": "Job", "name": "j", "apiGroup": "batch"},
    }
    assert updated("workloads", old, old) == (old, [])
    other = {"podGroupTemplates": [template("b")], "controllerRef": {"kind": "Job", "name": "k"}}
    assert updated("workloads", other, old)[1] == [
        "spec.controllerRef: Invalid value: null: field is immutable",
        "spec.podGroupTemplates: Invalid value: null: field is immutable",
    ]
    assert updated("workloads", {"controllerRef": old["controllerRef"]}, old)[1] == [
        "spec.podGroupTemplates: Invalid value: null: field is immutable",
        "spec.podGroupTemplates: Required value",
    ]


def test_a_controller_is_named_as_a_path_has_it() -> None:
    controller = {"apiGroup": "Batch", "kind": "", "name": "a/b"}
    errors = created(
        "workloads", {"podGroupTemplates": [template("a")], "controllerRef": controller}
    )[1]
    assert [error.partition(":")[0] for error in errors] == [
        "spec.controllerRef.apiGroup",
        "spec.controllerRef.kind",
        "spec.controllerRef.name",
    ]


def test_templates_of_the_same_position_keep_fields_of_disabled_gates() -> None:
    old = {"podGroupTemplates": [template("a", priority=3)]}
    new = {"podGroupTemplates": [template("a", priority=3), template("b", priority=4)]}
    kept, errors = updated("workloads", new, old, NONE)
    assert kept["podGroupTemplates"] == [template("a", priority=3), template("b")]
    assert errors == ["spec.podGroupTemplates: Invalid value: null: field is immutable"]
    assert created("workloads", old, NONE)[0] == {"podGroupTemplates": [template("a")]}


def test_columns_of_a_workload() -> None:
    row = kind_of("scheduling.k8s.io", "workloads").row
    assert row is not None
    meta = {"name": "w", "creationTimestamp": "1970-01-01T00:00:00Z"}
    assert row({"metadata": meta}, 61 * 10**9) == ["w", "61s"]
