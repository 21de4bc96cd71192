"""The resize subresource: what is kept of an update, and what is wrong with it."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.core.pods.resize import (
    ResizeGates,
    prepare_resize,
    validate_resize,
)


def answer(case: Any) -> Any:
    """One update."""
    given = case.get("gates") or {}
    gates = ResizeGates(
        given.get("InPlacePodVerticalScalingInitContainers", True),
        given.get("InPlacePodLevelResourcesVerticalScaling", True),
    )
    new = prepare_resize(case["new"], case["old"], gates)
    errors = validate_resize(new, case["old"], gates)
    found: dict[str, Any] = {
        "errors": [
            {"type": e.reason, "field": e.field, "detail": e.detail, "message": str(e)}
            for e in errors
        ],
        "generation": new["metadata"].get("generation", 0),
    }
    if not errors:
        spec = new["spec"]
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        found["containers"] = {each["name"]: each.get("resources") or {} for each in containers}
        found["pod_level"] = spec.get("resources")
    return found
