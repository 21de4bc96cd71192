"""Kubernetes issue 138316, pull request 138324: a recreated pod leaks its in-flight entry in the scheduler.

The scheduling queue keeps pods in flight by uid, but its failure handler reads the pod from the
informer by name. If the pod was deleted and created again under its name between Pop and that read,
the handler goes on with the new object: it ends the flight of a uid that never took off, and the
old one stays in flight for ever. From then on every event that interests any plugin is kept for it.
Scheduling decisions stay right; memory and the metric inflight_events grow.

The fix, as merged, returns early when the uids differ. Its first revision threaded the popped uid
through instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Option, Scenario
from controlplane.scenarios.authoring.small_forms import SMALL, START_S, explored, is_small
from controlplane.scenarios.authoring.workloads import pod, pods_come_and_go
from controlplane.scenarios.invariants.scheduling_queue import (
    ALL,
    LEDGER,
    ONCE_SETTLED,
    queue_holds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Invariant, Setting, User

HINTS = Option(
    "queueing-hints",
    type=bool,
    default=True,
    sets="queueing_hints",
    help="The scheduler's feature gate of that name.",
)
EVERY = Option(
    "all-invariants",
    type=bool,
    default=False,
    help="Ask all invariants of the queue, not only those that the race breaks.",
)


churn = pods_come_and_go(("web-0", "web-1"), 8)


async def workload(user: User) -> None:
    """Pods come and go; in the small form one pod that fits nowhere is recreated."""
    if not user.options[SMALL.key]:
        await churn(user)
        return
    await user.create(pod("web-0"))  # there is no node, so it is tried again, at 2 s
    await user.sleep(START_S - 1)
    user.delay("apiserver", "scheduler", 1)
    await user.delete("Pod", "web-0", grace_period_seconds=0)
    await user.create(pod("web-0", schedulingGates=[{"name": "later"}]))
    await user.sleep(4)
    await user.delete("Pod", "web-0", grace_period_seconds=0)


def build(setting: Setting) -> ClusterConfig:
    """Two small nodes and the scheduler; in the small form no node."""
    from controlplane.cluster import ClusterConfig

    small = is_small(setting)
    return ClusterConfig(
        nodes=() if small else setting.nodes(),
        kubelets=False,
        controllers=False,
        joined_informers=small,
        scheduler_watches=(),
    )


def invariants(setting: Setting) -> Sequence[Invariant]:
    """Of the ledger, or of the whole queue; in the small form what must hold once all is quiet."""
    if is_small(setting):
        return queue_holds(ONCE_SETTLED)
    return queue_holds(ALL if setting[EVERY.key] else LEDGER)


SCENARIO = Scenario(
    "race 138324",
    workload=workload,
    build=build,
    invariants=invariants,
    options=(HINTS, EVERY, SMALL),
    explored=explored,
    defaults={"node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: with the in-flight ledger (on by default from 1.32); fix: 1.36, backported to 1.34 and 1.35",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=(
        "I3: once nothing moves any more, no pod in flight has ceased to exist; and I1, I2, I7, which say that the"
        " ledger and its metrics fit together (all seven with --all-invariants)"
    ),
    scenario=SCENARIO,
    schedules=600,
)
