"""Fields whose feature gate an earlier release had off."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apiserver.schema.gated_fields import FIELD_GATES, is_off, without_gated
from controlplane.apiserver.schema.releases import without_younger
from controlplane.apiserver.schema.types import struct_type

POD = "io.k8s.api.core.v1.Pod"
NODE = "io.k8s.api.core.v1.Node"


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}], **spec}}


def test_every_gated_field_is_a_field_of_its_type() -> None:
    for gate in FIELD_GATES.values():
        for type_name, names in gate.fields.items():
            assert set(names) <= set(struct_type(f"io.k8s.{type_name}").fields)


def test_every_gate_is_on_in_the_latest_release() -> None:
    assert not [gate for gate in FIELD_GATES if is_off(gate, "1.36", frozenset())]


def test_a_release_knows_a_gated_field_before_it_has_the_gate_on() -> None:
    for name, gate in FIELD_GATES.items():
        before = f"1.{int(gate.on_since.partition('.')[2]) - 1}"
        for type_name, fields in gate.fields.items():
            for field in fields:
                _, unknown = without_younger(f"io.k8s.{type_name}", {field: 1}, before)
                assert not unknown, f"{name}: {field}"


@pytest.mark.parametrize(
    ("release", "kept"),
    [("1.32", set()), ("1.33", {"hostUsers"}), ("1.34", {"hostUsers", "resources"})],
)
def test_a_field_is_dropped_until_its_gate_is_on(release: str, kept: set[str]) -> None:
    given = pod(hostUsers=False, resources={"limits": {"cpu": "1"}})
    found = without_gated(POD, given, None, release)
    assert set(found["spec"]) - {"containers"} == kept


def test_a_field_that_the_stored_object_uses_stays() -> None:
    old, new = pod(hostUsers=True), pod(hostUsers=False, resources={})
    found = without_gated(POD, new, old, "1.32")
    assert set(found["spec"]) == {"containers", "hostUsers"}


def test_a_field_stays_where_its_gate_was_switched_on() -> None:
    node = {"status": {"declaredFeatures": ["a"]}}
    assert without_gated(NODE, node, None, "1.35") == {"status": {}}
    on = frozenset(("NodeDeclaredFeatures",))
    assert without_gated(NODE, node, None, "1.35", on) is node


def test_a_tree_without_gated_fields_is_the_same_tree() -> None:
    given = pod()
    assert without_gated(POD, given, None, "1.32") is given
