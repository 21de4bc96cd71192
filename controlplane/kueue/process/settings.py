"""Settings of a Kueue process: its configuration with defaults filled in.

Follows `apis/config/v1beta2` (kind Configuration).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controlplane.api.labels import Selector, requirement
from controlplane.client.election import ElectionConfig
from controlplane.kueue.controllers.workload import WaitForPodsReady
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.generic import GenericJob
from controlplane.kueue.metrics.options import MetricsOptions
from controlplane.kueue.queues.usage import FairSharing
from controlplane.kueue.workload.requests import NO_OPTIONS, RequestOptions

ELECTION: Final = ElectionConfig("c1f6bfd2.kueue.x-k8s.io", "kueue-system", release_on_cancel=True)
"""The default election of several replicas."""


def managed_namespaces(own: str = "kueue-system") -> Selector:
    """The default selector of namespaces with managed jobs: all but the system's and Kueue's own."""
    name = "kubernetes.io/metadata.name"
    return Selector([requirement(name, "notin", ["kube-system", own])])


@dataclass(frozen=True)
class Settings:
    """Configuration of a Kueue process.

    Args:
        gates: Feature gates.
        requests: Excluded and transformed resources.
        strategies: Preemption strategies of fair sharing; None switches fair sharing off.
        sharing: Admission fair sharing, None if it is off.
        pods_ready: Timeouts for pods of admitted workloads.
        by_eviction: A workload evicted by the PodsReady timeout is queued by the time of its eviction.
        retention: Nanoseconds that a finished workload is kept, None for ever.
        quota_check: `resources.quotaCheckStrategy`.
        frameworks: The kinds of jobs that are integrated.
        implied_pods: The framework of pods is there for the sake of those of their owners only.
        all_jobs: Manage jobs without a queue name too.
        namespaces: The namespaces with managed jobs, None for all.
        deactivated_retention: Nanoseconds that a job deactivated by Kueue is kept, None for ever.
        metrics: Which metrics are shown.
        election: The election of several replicas.
        workers: Workers of the queues of workloads, jobs and pods.
        custom: Kinds of jobs of a user.
    """

    gates: Gates = field(default_factory=Gates)
    requests: RequestOptions = NO_OPTIONS
    strategies: tuple[str, ...] | None = None
    sharing: FairSharing | None = None
    pods_ready: WaitForPodsReady | None = None
    by_eviction: bool = True
    retention: int | None = None
    quota_check: str = ""
    frameworks: tuple[str, ...] = ("batch/job",)
    implied_pods: bool = False
    all_jobs: bool = False
    namespaces: Selector | None = field(default_factory=managed_namespaces)
    deactivated_retention: int | None = None
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    election: ElectionConfig = ELECTION
    workers: int = 5
    custom: tuple[type[GenericJob], ...] = ()
