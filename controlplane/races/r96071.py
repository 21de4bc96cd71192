"""Kubernetes pull request 96071: a resync queues a pod that is being scheduled or waits for an event.

An informer that resyncs delivers every object once more, as an update that changes nothing. The handler passed it
on to the queue; a pod that is between Pop and its assumption is in no queue, so it was put into one, and is
scheduled twice.

The fix ignores updates between equal versions. (Since 125578 the queue also asks whether the pod is in flight, so
that one is off here.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling_queue import queue_holds

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Setting, User


def build(setting: Setting) -> ClusterConfig:
    """A scheduler whose informers resync every second."""
    from controlplane.api.times import SECOND
    from controlplane.client.features import ClientFeatures

    return scheduler_alone(client=ClientFeatures(resync_ns=SECOND))(setting)


async def some_pods(user: User) -> None:
    """A few pods that fit, some of them about the time of a resync."""
    await user.sleep(1)
    for number in range(6):
        await user.create(pod(f"web-{number}", "100m"))
        await user.sleep(user.choose(2, "how long"))


SCENARIO = Scenario(
    "race 96071",
    workload=some_pods,
    build=build,
    invariants=queue_holds(("I5",)),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.20; fix: 1.20",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="I5: a pod between Pop and Done is in no queue",
    scenario=SCENARIO,
    schedules=600,
    broken={"without_fix": ("96071", "125578")},
    fixed={"without_fix": ("125578",)},
)
