"""The number of pods that workloads in files ask for: a number too large for one machine is refused in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.inputs.reading import CREATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.scenarios.inputs.reading import Submission

__all__ = ["check_asked_pods"]

FIELDS: Final = {
    "Deployment": ("replicas",),
    "Job": ("completions", "parallelism"),
    "ReplicaSet": ("replicas",),
    "ReplicationController": ("replicas",),
    "StatefulSet": ("replicas",),
}
"""The fields with a workload's number of pods, the first present one counts; 1 if none is present."""


def check_asked_pods(submissions: Iterable[Submission], limit: int) -> int:
    """The number of pods that the files ask for. Raises UsageError at the object that exceeds `limit`."""
    asked = 0
    for submission in submissions:
        if submission.verb != CREATE:
            continue
        field, count = _asked(submission.tree)
        asked += count
        if count and asked > limit:
            together = f", {asked} with those before it" if asked != count else ""
            raise submission.error(
                field, f"{count} pods{together}: more than a run may have (--max-pods {limit})"
            )
    return asked


def _asked(tree: dict[str, Any]) -> tuple[str, int]:
    """The field that says how many pods an object makes, and how many."""
    kind = tree["kind"]
    if kind == "Pod":
        return "", 1
    spec = tree.get("spec") or {}
    for field in FIELDS.get(kind, ()):
        if spec.get(field) is not None:
            return f"spec.{field}", int(spec[field])
    return "", int(kind in FIELDS)
