"""Actions that a pod's worker asks of its kubelet: values, carried out in order by `kubelet.loops.pod_workers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.allocation.actuation import Plan


@attrs.frozen
class SetStatus:
    """Patch the status of the pod; `uid` guards against a pod recreated under the same name."""

    uid: str
    status: Tree


@attrs.frozen
class Finished:
    """Nothing of the pod is left on the node: the object may be deleted once that is asked for."""

    uid: str


@attrs.frozen
class Event:
    """An event about the pod, or about one of its containers."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    container: str = ""


@attrs.frozen
class Made:
    """A container was made and runs."""

    container: str
    container_id: str


@attrs.frozen
class Ended:
    """A container has stopped."""

    container_id: str


@attrs.frozen
class Resize:
    """Bring running containers to the allocation of the pod as this sync has it, step by step.

    Each step is taken by `PodWorker.apply`.
    """

    pod: Pod
    plan: Plan


@attrs.frozen
class ReconcileMirror:
    """Let the API server show this version of a static pod."""

    pod: Pod


@attrs.frozen
class PrepareClaims:
    """Prepare the devices of the pod's claims; `PodWorker.claims` takes the outcome."""

    pod: Pod


@attrs.frozen
class UnprepareClaims:
    """Unprepare them, likewise."""

    pod: Pod


Action = (
    SetStatus
    | Finished
    | Event
    | Made
    | Ended
    | Resize
    | ReconcileMirror
    | PrepareClaims
    | UnprepareClaims
)
