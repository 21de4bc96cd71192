"""A local queue: the workloads that are pending in it.

Follows `pkg/cache/queue/local_queue.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.kueue.workload.info import Info


@dataclass
class LocalQueue:
    """A LocalQueue by key (namespace/name) with the name of its cluster queue.

    `items` are pending and not in the scheduler's hands, `finished` are counted only.
    """

    key: str
    cluster_queue: str
    items: dict[str, Info] = field(default_factory=dict)
    finished: dict[str, None] = field(default_factory=dict)
    counted: bool = False
    """For the metrics: a finished workload has ever counted here."""
