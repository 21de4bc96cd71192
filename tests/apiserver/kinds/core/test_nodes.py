"""Warnings for nodes."""

from __future__ import annotations

from controlplane.apiserver.kinds.core.nodes import node_warnings


def test_a_node_is_warned_of_fields_that_are_not_read() -> None:
    assert node_warnings({"spec": {"externalID": "a"}}) == [
        "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    ]
