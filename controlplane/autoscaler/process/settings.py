"""Settings of the process, with the defaults of their flags. Times are nanoseconds.

Upstream: `config/autoscaling_options.go`, `config/flags/flags.go`. What decides stands in `autoscaler.options`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from controlplane.autoscaler import status
from controlplane.autoscaler.options import MINUTE, SECOND, Options

NAMESPACE: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one autoscaler: intervals, deletions of nodes, status; `options` are those of its decisions."""

    options: Options = field(default_factory=Options)
    scan_interval: int = 10 * SECOND
    frequent_loops: bool = True
    scale_up_from_zero: bool = True
    namespace: str = NAMESPACE
    status_name: str = status.NAME
    writes_status: bool = True
    elects: bool = True
    """Of several processes one leads."""
    cordon: bool = True
    evicts_daemon_sets_of_empty: bool = False
    evicts_daemon_sets_of_occupied: bool = True
    max_graceful_termination: int = 10 * MINUTE
    drain_priorities: tuple[tuple[int, int], ...] = ()
    """Priorities of pods, lowest first, with the seconds that pods from there on may take to end."""
    max_pod_eviction_time: int = 2 * MINUTE
    deletion_delay_timeout: int = 2 * MINUTE
    batcher_interval: int = 0
    provisioning_requests: bool = False
    capacity_quotas: bool = False
    buffer_controller: bool = False
    buffer_injection: bool = False
    first_request_backoff: int = MINUTE
    longest_request_backoff: int = 10 * MINUTE
    request_batch: int = 1
    """The maximum number of check-capacity ProvisioningRequests that one loop processes."""
