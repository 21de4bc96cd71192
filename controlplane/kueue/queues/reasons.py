"""Why a workload goes back to its queue, and the reason that its condition QuotaReserved gets.

Follows `pkg/cache/queue/cluster_queue.go`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class Requeue(Enum):
    """Why the scheduler hands a workload back; the values are upstream's names."""

    GENERIC = ""
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PREEMPTION_GATED = "PreemptionGated"
    PENDING_PREEMPTION = "PendingPreemption"
    PENDING_MIGRATION = "PendingMigration"
    PREEMPTION_FAILED = "PreemptionFailed"
    NO_FIT = "NoFit"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"


PREEMPTING: Final = frozenset({Requeue.PENDING_PREEMPTION, Requeue.PENDING_MIGRATION})
"""The workload waits for workloads that go away for it."""
TRIED_AGAIN_AT_ONCE: Final = PREEMPTING | {
    Requeue.FAILED_AFTER_NOMINATION,
    Requeue.PREEMPTION_FAILED,
}
"""Also in a queue that passes over what does not fit."""
SAME_FOR_EQUIVALENT: Final = frozenset({Requeue.NO_FIT, Requeue.PREEMPTION_NO_CANDIDATES})
"""State that all workloads of one shape share."""

PENDING_EVALUATION: Final = "PendingEvaluation"
