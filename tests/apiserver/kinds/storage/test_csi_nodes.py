"""Rules of CSI nodes that no recorded conversation reaches."""

from __future__ import annotations

from controlplane.apiserver.kinds.storage.csi_nodes import validate_csi_node


def test_a_driver_knows_its_node_by_a_short_text() -> None:
    driver = {"name": "d", "nodeID": "n" * 193, "topologyKeys": ["", ""]}
    errors = validate_csi_node({"spec": {"drivers": [driver]}})
    assert errors[0].detail == "must be 192 characters or less"
    kinds = [error.reason for error in errors[1:] if error.reason != "FieldValueInvalid"]
    assert kinds == ["FieldValueRequired", "FieldValueRequired", "FieldValueDuplicate"]
