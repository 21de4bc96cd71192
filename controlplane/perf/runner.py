"""Runs one workload: a cluster of API server and scheduler, without kubelets and controllers, as upstream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors import EventLog
from actors.log import LEVELS
from controlplane.client.loops.clientset import Resource
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.perf.measuring import Switch
from controlplane.perf.operations import Executor, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.perf.measuring import Collection
    from controlplane.perf.workloads import Workload

PROGRESS_STEPS = 4096
NO_LIMIT = 1 << 62
DISABLED_ADMISSION = ("Priority",)
"""Upstream leaves it out here as well: the templates name priorities without a class."""


@frozen
class WorkloadResult:
    """What a run gave: its measurements, or why there are none."""

    workload: Workload
    collections: tuple[Collection, ...] = ()
    failed: str = ""
    wall_s: float = 0.0
    steps: int = 0
    virtual_s: float = 0.0


def run(
    workload: Workload,
    *,
    driver: str = "bare",
    log_level: str = "info",
    progress: Callable[[str], None] | None = None,
) -> WorkloadResult:
    """Run a workload once. A workload that is refused is not run; see `WorkloadResult.failed`."""
    if workload.refused:
        return WorkloadResult(workload, failed=f"refused: {workload.refused}")
    config = ClusterConfig(
        kubelets=False,
        controllers=False,
        heartbeats=False,
        joined_informers=True,
        scheduler_features=workload.features,
        disabled_admission=DISABLED_ADMISSION,
    )
    cluster = Cluster(
        config,
        log=EventLog(LEVELS[log_level]),
        livelock_limit=NO_LIMIT,
        step_limit=NO_LIMIT,
    )
    world = cluster.world
    outcome, switch = Outcome(), Switch()
    cluster.scheduler.observer = switch
    table = cluster.scratch_server().table

    def kinds(api_version: str, kind: str) -> tuple[Resource, bool] | None:
        info = table.by_kind(api_version, kind)
        if info is None:
            return None
        return Resource(info.group, info.version, info.resource), info.namespaced

    executor = Executor(workload, kinds, outcome, switch, world.stop)
    cluster.user("benchmark", executor.run)
    if progress is not None:
        world.observe(
            PROGRESS_STEPS,
            lambda: progress(f"{workload.full_name}: {outcome.doing}, {world.steps} steps"),
        )
    started = time.perf_counter()
    chosen: Any = driver
    result = world.run(chosen)
    wall = time.perf_counter() - started
    failed = outcome.failed
    if not failed and not outcome.finished:
        failed = f"{outcome.doing}: {result.verdict}: {result.reason}"
    return WorkloadResult(
        workload,
        tuple(outcome.collections),
        failed,
        wall,
        result.steps,
        result.t_ns / 1e9,
    )
