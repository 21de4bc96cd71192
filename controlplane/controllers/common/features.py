"""Feature gates, as far as controllers look at them, with what each release had.

Upstream: `pkg/features/kube_features.go`. What is older than the emulated releases is not a gate here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.gates import LATEST, minor_of

if TYPE_CHECKING:
    from collections.abc import Mapping

DRA_DEVICE_TAINTS: Final = "DRADeviceTaints"
HPA_SCALE_TO_ZERO: Final = "HPAScaleToZero"
MAX_UNAVAILABLE_STATEFUL_SET: Final = "MaxUnavailableStatefulSet"
CONSISTENT_DAEMON_SET: Final = "StaleControllerConsistencyDaemonSet"
CONSISTENT_JOB: Final = "StaleControllerConsistencyJob"
CONSISTENT_REPLICA_SET: Final = "StaleControllerConsistencyReplicaSet"
WORKLOAD_WITH_JOB: Final = "WorkloadWithJob"
CONSISTENT_STATEFUL_SET: Final = "StaleControllerConsistencyStatefulSet"

_HISTORY: Final[Mapping[str, tuple[tuple[str, bool], ...]]] = {
    "DRAAdminAccess": (("1.32", False), ("1.34", True)),
    DRA_DEVICE_TAINTS: (("1.33", False), ("1.36", True)),
    "DRADeviceTaintRules": (("1.35", False),),
    "DRAPrioritizedList": (("1.33", False), ("1.34", True)),
    "DRAWorkloadResourceClaims": (("1.36", False),),
    "GenericWorkload": (("1.35", False),),
    HPA_SCALE_TO_ZERO: (("1.16", False),),
    MAX_UNAVAILABLE_STATEFUL_SET: (("1.24", False),),
    CONSISTENT_DAEMON_SET: (("1.36", True),),
    CONSISTENT_JOB: (("1.36", True),),
    CONSISTENT_REPLICA_SET: (("1.36", True),),
    CONSISTENT_STATEFUL_SET: (("1.36", True),),
    WORKLOAD_WITH_JOB: (("1.36", False),),
}
"""Name -> from which release on it is on or off by default; before the first it did not exist."""


def of_release(release: str = LATEST) -> dict[str, bool]:
    """Every gate as the release had it. Raises UsageError."""
    wanted = minor_of(release)
    return {
        name: next((on for since, on in reversed(history) if minor_of(since) <= wanted), False)
        for name, history in _HISTORY.items()
    }


def chosen(release: str, asked: Mapping[str, bool]) -> dict[str, bool]:
    """Every gate as the release had it, but for those asked for."""
    return {name: asked.get(name, on) for name, on in of_release(release).items()}
