"""Schedules per second and core: small to large scenarios, both drivers, with and without log and faults; two cores.

The scenario is the first race's churn (`pods_come_and_go`), made longer; random walks. Per second of the
processor, so that what else runs on the machine matters less; two processes are timed on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from actors import EventLog, collector
from actors.strategies.random_walk import RandomWalk
from actors.world import Driver
from bench.harness import Row, seconds
from controlplane.cluster import ClusterConfig
from controlplane.scenarios import Scenario, Setting
from controlplane.scenarios.authoring.nemesis import nemesis
from controlplane.scenarios.authoring.workloads import pods_come_and_go
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import Plan, plan_of

SIZES = ((5, 60), (35, 15), (330, 2))
"""Operations of the user, and schedules for one figure: about 130, 600 and 5,000 steps."""


def build(setting: Setting) -> ClusterConfig:
    return ClusterConfig(
        nodes=setting.nodes(), kubelets=False, controllers=False, scheduler_watches=()
    )


def plan_for(operations: int, *, faults: bool = False) -> Plan:
    return plan_of(
        Scenario(
            "bench",
            workload=pods_come_and_go(("web-0", "web-1"), operations),
            build=build,
            faults=(nemesis(2),) if faults else (),
            defaults={"node_cpu": "2"},
        )
    )


def run(plan: Plan, schedules: int, driver: Driver, *, log: bool, first: int = 0) -> int:
    """The steps of so many schedules."""
    steps = 0
    for seed in range(first, first + schedules):
        kept = EventLog() if log else EventLog(keep=False)
        steps += Execution(plan, RandomWalk(seed), log=kept).execute(driver).steps
        collector.sweep()  # as a search does
    return steps


def rows(repeat: int) -> Iterator[Row]:
    for operations, schedules in SIZES:
        plan = plan_for(operations)
        size = run(plan, schedules, "bare", log=False) // schedules
        for driver, log, faults in (
            ("bare", False, False),
            ("bare", True, False),
            ("bare", False, True),
            ("trio", False, False),
            ("trio", True, False),
        ):
            tried = plan_for(operations, faults=faults)
            words = [driver, *(["log"] if log else []), *(["faults"] if faults else [])]
            values = []
            for _ in range(repeat):
                with collector.frozen():
                    start = time.process_time()
                    run(tried, schedules, driver, log=log)
                    values.append(schedules / (time.process_time() - start))
            name = f"schedules of {size:,} steps, {', '.join(words)}"
            yield Row(name, "per CPU second", tuple(values))
    yield from _two_cores(repeat)


def _piece(first: int, schedules: int) -> int:
    return run(plan_for(SIZES[0][0]), schedules, "bare", log=False, first=first)


def _two_cores(repeat: int) -> Iterator[Row]:
    """How much more two processes do in the same time than one."""
    count = 2 * SIZES[0][1]
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(_piece, (0, 0), (1, 1)))
        values = []
        for _ in range(repeat):
            one, _steps = seconds(lambda: pool.submit(_piece, 0, count).result())
            two, _steps = seconds(lambda: list(pool.map(_piece, (0, count), (count, count))))
            values.append(2 * one / two)
    yield Row("two processes instead of one", "times", tuple(values))
