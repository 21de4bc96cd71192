"""Changes of metadata."""

from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.metadata import change_errors, finalizer_warnings
from tests.apiserver.world import World


def test_new_finalizers_of_a_deleted_object_are_quoted() -> None:
    old = {"name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z"}
    found = change_errors({**old, "resourceVersion": "1", "finalizers": ["\n", "b"]}, old)
    assert any(r'[]string{"\n", "b"}' in str(each) for each in found)


_CONFLICTS = "to avoid accidental conflicts with other finalizer writers"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f", f'"f": prefer a domain-qualified finalizer name {_CONFLICTS}'),
        ("a.io", f'"a.io": prefer a domain-qualified finalizer name including a path (/) {_CONFLICTS}'),
        ("a.io/f", ""),
        ("orphan", ""),
        ("foregroundDeletion", ""),
    ],
)  # fmt: skip
def test_finalizers_of_custom_resources_should_be_qualified(name: str, text: str) -> None:
    expected = [f"metadata.finalizers: {text}"] if text else []
    assert finalizer_warnings({"finalizers": [name]}, None) == expected
    assert finalizer_warnings({"finalizers": [name]}, {"finalizers": []}) == expected
    assert finalizer_warnings({"finalizers": [name]}, {"finalizers": [name]}) == []


def test_a_finalizer_that_is_no_qualified_name_is_told_so() -> None:
    told = finalizer_warnings({"finalizers": ["a.io/"]}, None)
    assert len(told) >= 1
    assert told[0].startswith('metadata.finalizers: "a.io/": name part must be non-empty')


def test_finalizers_of_custom_resources_are_warned_about_once() -> None:
    world = World()
    made = world.create("customresourcedefinitions", definition(), **DEFINITIONS)
    assert made.code == 201
    world.server.advance()
    where = {"group": "a.io", "version": "v1"}
    body = {"apiVersion": "a.io/v1", "kind": "W", "metadata": {"name": "w", "finalizers": ["f"]}}
    assert world.create("ws", body, **where).warnings == [
        f'metadata.finalizers: "f": prefer a domain-qualified finalizer name {_CONFLICTS}'
    ]
    changed = world.patch("ws", "w", {"metadata": {"labels": {"a": "b"}}}, **where)
    assert changed.code == 200 and not changed.warnings


DEFINITIONS = {"group": "apiextensions.k8s.io", "version": "v1", "namespace": ""}


def definition() -> dict[str, object]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ws.a.io"},
        "spec": {
            "group": "a.io",
            "names": {"kind": "W", "plural": "ws"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
