"""A fast replacement for attrs.evolve."""

from __future__ import annotations

import attrs

from controlplane.api.object import Object
from controlplane.sharing.replacing import replaced


def test_a_copy_differs_in_the_named_fields_only():
    pod = Object(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"priority": 7}}
    ).view
    there = replaced(pod.spec, node_name="n1")
    assert there == attrs.evolve(pod.spec, node_name="n1")
    assert (there.node_name, there.priority, pod.spec.node_name) == ("n1", 7, "")
