"""Claims of devices."""

from __future__ import annotations

import copy
from typing import Any

from controlplane.apiserver.kinds.resource.claims import (
    validate_device_claim_update,
)

CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"devices": {"requests": [{
        "name": "r", "exactly": {"deviceClassName": "dc", "allocationMode": "ExactCount",
                                 "count": 1}}]}},
}  # fmt: skip


def test_a_changed_claim_shows_lists_as_they_were_written() -> None:
    new = copy.deepcopy(CLAIM)
    new["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    written = copy.deepcopy(new["spec"])
    written["devices"]["config"] = []
    (error,) = validate_device_claim_update(new, CLAIM, written)
    assert error.value["Devices"]["Config"] == []
    assert error.value["Devices"]["Constraints"] is None
    assert validate_device_claim_update(CLAIM, CLAIM, {"devices": {"config": []}}) == []
