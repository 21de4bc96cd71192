"""Runs Kueue's own scalability test in virtual time: an API server, Kueue, and jobs that are mimicked.

Upstream's Kueue has 50 requests a second for each kind of objects there, after a burst of 100 (minimalkueue), and so
has this one: it is what bounds the admissions. Virtual seconds are those that upstream's test spends on the wall
clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from actors import Unheard
from controlplane.client.resources import NAMESPACES
from controlplane.perf.kueue_mimic import CLASS, RUNTIME, Figures, mimic_of
from controlplane.scenarios.authoring.kueue_worlds import (
    cluster_queue,
    create,
    flavor,
    kueue_alone,
    local_queue,
    workload,
)
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.cluster import ClusterConfig
    from controlplane.perf.kueue_files import CohortSet, QueueSet, Ranges, WorkloadSet
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

NO_LIMIT: Final = 1 << 62
PROGRESS_STEPS: Final = 4096
CLIENT_RATE: Final = (50, 100)
FLAVOR: Final = "rf"
POLL_S: Final = 1


@frozen
class Result:
    """The result of a run: its figures, and what it took."""

    figures: Figures
    workloads: int
    virtual_s: float
    wall_s: float
    steps: int
    failed: str = ""
    traceback: str = ""

    def to_json(self, ranges: Ranges) -> dict[str, Any]:
        """For programs."""
        return {
            "workloads": {
                name: {
                    "count": each.count,
                    "averageTimeToAdmissionMs": round(each.mean_wait_ms),
                    "totalEvictions": each.evictions,
                }
                for name, each in sorted(self.figures.workloads.items())
            },
            "clusterQueues": {
                name: {"usagePercent": round(each.usage, 2)}
                for name, each in sorted(self.figures.queues.items())
            },
            "ranges": [
                {
                    "what": what,
                    "class": name,
                    "bound": bound,
                    "result": round(found, 2),
                    "kept": kept,
                }
                for what, name, bound, found, kept in self.verdicts(ranges)
            ],
            "virtualSeconds": round(self.virtual_s, 3),
            "wallSeconds": round(self.wall_s, 3),
            "steps": self.steps,
            "failed": self.failed,
        }

    def verdicts(self, ranges: Ranges) -> list[tuple[str, str, float, float, bool]]:
        """Each range, as what, of which class, the bound, the result, and whether the result keeps it."""
        found = []
        if ranges.wall_ms:
            virtual = self.virtual_s * 1000
            kept = virtual <= ranges.wall_ms
            found.append(("virtual ms, at most", "", float(ranges.wall_ms), virtual, kept))
        for name, least in ranges.usage.items():
            group = self.figures.queues.get(name)
            usage = 0.0 if group is None else group.usage
            found.append(("usage %, at least", name, least, usage, usage >= least))
        for name, most in ranges.wait_ms.items():
            group_ = self.figures.workloads.get(name)
            wait = 0.0 if group_ is None else group_.mean_wait_ms
            found.append(("ms to admission, at most", name, most, wait, 0 < wait <= most))
        return found


def run(
    cohorts: Sequence[CohortSet],
    *,
    driver: str = "bare",
    rate: tuple[int, int] | None = CLIENT_RATE,
    progress: Callable[[str], None] | None = None,
) -> Result:
    """Generate the workloads, and run until all have finished.

    Args:
        cohorts: The cohorts to generate, with their queues and workloads.
        driver: As everywhere.
        rate: Requests a second of Kueue's client, and its burst; None for no limit.
        progress: Told how far it is.
    """
    figures = Figures()
    total = sum(
        cohort.count * each.count * each.workloads for cohort in cohorts for each in cohort.queues
    )

    async def main(user: User) -> None:
        await create(user, flavor(FLAVOR))
        tasks = [
            user.spawn(_queue, each, f"{cohort.name}-{number}", at, index)
            for cohort in cohorts
            for number in range(cohort.count)
            for at, each in enumerate(cohort.queues)
            for index in range(each.count)
        ]
        for task in tasks:
            await user.join(task)
        while figures.finished < total:
            await user.sleep(POLL_S)
        user.run.world.stop()

    scenario = Scenario(
        "kueue scalability",
        workload={"generator": main},
        build=lambda setting: _build(setting, figures, rate),
        livelock_limit=NO_LIMIT,
        step_limit=NO_LIMIT,
    )
    made = Execution(plan_of(scenario), log=Unheard())
    if progress is not None:
        told = progress
        made.world.observe(
            PROGRESS_STEPS,
            lambda: told(
                f"{figures.finished} of {total} workloads, {made.world.now / 1e9:.0f} s of virtual time"
            ),
        )
    started = time.perf_counter()
    chosen: Any = driver
    result = made.execute(chosen)
    wall = time.perf_counter() - started
    failed = "" if figures.finished == total else f"{result.verdict}: {result.reason}"
    return Result(figures, total, result.t_ns / 1e9, wall, result.steps, failed, made.traceback)


def _build(setting: Setting, figures: Figures, rate: tuple[int, int] | None) -> ClusterConfig:
    config = kueue_alone(setting)
    (kueue,) = config.own_controllers
    kueue.client_rate = rate
    return evolve(
        config,
        schedulers=0,
        heartbeats=False,
        own_controllers=(kueue, mimic_of(figures)),
        joined_informers=True,
    )


async def _queue(user: User, given: QueueSet, cohort: str, at: int, index: int) -> None:
    """Create a queue with its namespace and local queue, and its workloads in tasks of their own."""
    name = f"{given.name}-{at}-{index}-{cohort}"
    quota = {"nominalQuota": given.nominal}
    if given.borrowing:
        quota["borrowingLimit"] = given.borrowing
    preemption = {"reclaimWithinCohort": given.reclaim, "withinClusterQueue": given.within}
    tree = cluster_queue(
        name, {FLAVOR: quota}, cohort, preemption={k: v for k, v in preemption.items() if v}
    )
    tree["metadata"]["labels"] = {CLASS: given.name}
    await create(user, tree)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await user.client.create(NAMESPACES, namespace)
    await create(user, local_queue(name, name))
    tasks = [user.spawn(_workloads, each, name, number) for number, each in enumerate(given.sets)]
    for task in tasks:
        await user.join(task)


async def _workloads(user: User, given: WorkloadSet, queue: str, number: int) -> None:
    for at in range(given.count):
        for place, each in enumerate(given.workloads):
            await user.sleep(given.interval_ms / 1000)
            name = f"{each.name}-{number}-{at}-{place}"
            tree = workload(name, queue, each.request, each.priority, queue)
            tree["metadata"]["labels"] = {CLASS: each.name, RUNTIME: str(each.runtime_ms)}
            await create(user, tree)
