"""Rules of CSI drivers that no recorded conversation reaches."""

from __future__ import annotations

from controlplane.apiserver.kinds.storage.csi_drivers import validate_csi_driver


def test_a_driver_does_not_ask_too_often_what_a_node_can_hold() -> None:
    spec = {"attachRequired": True, "podInfoOnMount": True, "storageCapacity": True,
            "fsGroupPolicy": "None", "nodeAllocatableUpdatePeriodSeconds": 9,
            "serviceAccountTokenInSecrets": True, "volumeLifecycleModes": ["x"]}  # fmt: skip
    errors = validate_csi_driver({"metadata": {"name": "d"}, "spec": spec})
    assert [error.field.removeprefix("spec.") for error in errors] == [
        "volumeLifecycleModes", "nodeAllocatableUpdatePeriodSeconds", "serviceAccountTokenInSecrets",
    ]  # fmt: skip
    assert errors[1].detail == "must be greater than or equal to 10 seconds"
