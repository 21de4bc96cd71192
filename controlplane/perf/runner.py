"""Runs one workload: a scenario of API server and scheduler, without kubelets and controllers, as upstream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors import EventLog, Unheard
from actors.log import LEVELS
from controlplane.apiserver.schema.feature_gates import switched_on
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.client.loops.clientset import Resource
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.perf.measuring import Switch
from controlplane.perf.operations import Executor, Outcome
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.perf.measuring import Collection
    from controlplane.perf.workloads import Workload
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

PROGRESS_STEPS = 4096
NO_LIMIT = 1 << 62
DISABLED_ADMISSION = ("Priority", "TaintNodesByCondition")
"""Upstream leaves them out here as well: templates name priorities without a class, and nothing takes taints away."""
RULES_GATE = "DRADeviceTaintRules"
"""It serves DeviceTaintRules, which upstream's benchmark does by --runtime-config."""

CLAIM_CONTROLLERS = ("resourceclaim-controller", "garbage-collector-controller")
"""With upstream's gate of devices: claims are made of templates, and go with their pods."""


@frozen
class WorkloadResult:
    """The result of a run: its measurements, or the reason why there are none."""

    workload: Workload
    collections: tuple[Collection, ...] = ()
    failed: str = ""
    wall_s: float = 0.0
    steps: int = 0
    virtual_s: float = 0.0
    traceback: str = ""
    """Of the exception that ended it, if one did."""


def scenario_of(workload: Workload, outcome: Outcome) -> Scenario:
    """The scenario of a benchmark's workload; `outcome` receives its result."""
    switch = Switch()

    def make(config: ClusterConfig, **options: Any) -> Cluster:
        cluster = Cluster(config, **options)
        cluster.scheduler.observer = switch
        return cluster

    async def benchmark(user: User) -> None:
        stop = user.run.world.stop
        await Executor(workload, _kinds(user.cluster), outcome, switch, stop).run(user.ctx)

    def build(_setting: Setting) -> ClusterConfig:
        return ClusterConfig(
            nodes=(),
            kubelets=False,
            controllers=_has_devices(workload),
            enabled_controllers=CLAIM_CONTROLLERS,
            devices=_has_devices(workload),
            heartbeats=False,
            scheduler=workload.scheduler,
            joined_informers=True,
            old_versions=_has_devices(workload),
            scheduler_features=_features(workload),
            disabled_admission=DISABLED_ADMISSION,
        )

    return Scenario(
        f"scheduler-perf {workload.full_name}",
        workload={"benchmark": benchmark},
        build=build,
        make=make,
        livelock_limit=NO_LIMIT,
        step_limit=NO_LIMIT,
    )


def _has_devices(workload: Workload) -> bool:
    return bool(workload.features.get("DynamicResourceAllocation"))


def _features(workload: Workload) -> Mapping[str, bool]:
    return {RULES_GATE: True, **workload.features} if _has_devices(workload) else workload.features


def _kinds(cluster: Cluster) -> Callable[[str, str], tuple[Resource, bool] | None]:
    config = cluster.config
    gates = switched_on(cluster.scheduler_features, config.release)
    table = builtin_resources(config.release, gates, old=config.old_versions)

    def kinds(api_version: str, kind: str) -> tuple[Resource, bool] | None:
        info = table.by_kind(api_version, kind)
        if info is None:
            return None
        return Resource(info.group, info.version, info.resource), info.namespaced

    return kinds


def run(
    workload: Workload,
    *,
    driver: str = "bare",
    log_level: str = "off",
    progress: Callable[[str], None] | None = None,
) -> WorkloadResult:
    """Run a workload once. A refused workload is not run; see `WorkloadResult.failed`.

    The trace is not returned: it is recorded only where `log_level` says so, to see what that costs.
    """
    if workload.refused:
        return WorkloadResult(workload, failed=f"refused: {workload.refused}")
    outcome = Outcome()
    setting = plan_of(scenario_of(workload, outcome))
    log = Unheard() if log_level == "off" else EventLog(LEVELS[log_level])
    made = Execution(setting, log=log)
    world = made.world
    if progress is not None:
        world.observe(
            PROGRESS_STEPS,
            lambda: progress(f"{workload.full_name}: {outcome.doing}, {world.steps} steps"),
        )
    started = time.perf_counter()
    chosen: Any = driver
    result = made.execute(chosen)
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
        made.traceback,
    )
