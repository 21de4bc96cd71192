"""Whether a container of a pod has a log, and what is said when it has none.

Upstream: validateContainerLogStatus in pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from itertools import chain

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.status import bad_request

__all__ = ["check_has_log"]

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_IMAGE_TROUBLE = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def check_has_log(pod: Tree, container: str, *, previous: bool = False) -> None:
    """Answer quietly if the container, or its `previous` life, has a log; ApiError 400 if not."""
    name = pod["metadata"]["name"]
    state = pod.get("status") or {}
    found: Tree | None = next(
        (
            each
            for each in chain.from_iterable(state.get(key) or () for key in _STATUSES)
            if each.get("name") == container
        ),
        None,
    )
    shown = f'container "{container}" in pod "{name}"'
    if found is None:  # the kubelet has not told yet
        found = {"state": {"waiting": {"reason": _first_reason(pod)}}}
    now, last = found.get("state") or {}, found.get("lastState") or {}
    ended = bool((last.get("terminated") or {}).get("containerID"))
    if previous:
        if not ended:
            raise bad_request(f"previous terminated {shown} not found")
    elif "running" in now:
        return
    elif "terminated" in now or "terminated" in last:
        if not ended and not (now.get("terminated") or {}).get("containerID"):
            raise bad_request(f"{shown} is terminated")
    elif "waiting" in now:
        reason = (now["waiting"] or {}).get("reason", "")
        why = _IMAGE_TROUBLE.get(reason, reason)
        raise bad_request(f"{shown} is waiting to start: {why}")
    else:
        raise bad_request(f"{shown} is waiting to start - no logs yet")


def _first_reason(pod: Tree) -> str:
    """What a kubelet says of a container before it has begun with the pod."""
    return "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
