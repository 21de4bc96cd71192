"""Events about resizes. Upstream: pkg/kubelet/events (PodResize...Msg)."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from controlplane.api.pod import Pod
from controlplane.kubelet.allocation.state import desired
from controlplane.kubelet.features import Features

STARTED: Final = "ResizeStarted"
COMPLETED: Final = "ResizeCompleted"
DEFERRED: Final = "ResizeDeferred"
INFEASIBLE: Final = "ResizeInfeasible"
FAILED: Final = "ResizeError"


@attrs.frozen
class ResizeEvent:
    """An event about a pod, recorded by the loop that carries out the operation."""

    pod: Pod
    type: str
    reason: str
    message: str


def started(pod: Pod, generation: int, features: Features) -> ResizeEvent:
    """The allocation was changed."""
    text = summary(pod, generation, features)
    return ResizeEvent(pod, "Normal", STARTED, f"Pod resize started: {text}")


def completed(pod: Pod, generation: int, features: Features) -> ResizeEvent:
    """Return the event for an actuated allocation."""
    text = summary(pod, generation, features)
    return ResizeEvent(pod, "Normal", COMPLETED, f"Pod resize completed: {text}")


def pending(
    pod: Pod, reason: str, message: str, generation: int, features: Features
) -> ResizeEvent:
    """The resize waits or cannot be; the raw reason of the handler decides which."""
    text = summary(pod, generation, features, message)
    name = INFEASIBLE if reason == "Infeasible" else DEFERRED
    return ResizeEvent(pod, "Warning", name, f"Pod resize {reason}: {text}")


def failed(pod: Pod, message: str, generation: int, features: Features) -> ResizeEvent:
    """A step of the actuation failed."""
    text = summary(pod, generation, features, message)
    return ResizeEvent(pod, "Warning", FAILED, f"Pod resize error: {text}")


def summary(pod: Pod, generation: int, features: Features, error: str = "") -> str:
    """The pod's resources as JSON, empty parts left out."""
    resources = desired(pod, features)
    init = {each.name for each in pod.spec.init_containers}
    tree: dict[str, Any] = {}
    for key, wanted in (("initContainers", True), ("containers", False)):
        listed = [
            {"name": name, "resources": amounts}
            for name, amounts in resources.containers.items()
            if (name in init) == wanted
        ]
        if listed:
            tree[key] = listed
    tree["generation"] = generation
    if error:
        tree["error"] = error
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
