"""Kubernetes issue 37725: a status that is read from the cache at every retry is never written.

The kubelet reports its node's status: it reads the node, changes it, and writes it; on a conflict it
tries again, five times. To spare the store it read at version 0, from the API server's cache. When the
cache lags, every retry reads the same old node and conflicts again: the report is lost, and in time the
node counts as not ready.

The fix: only the first try may read the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Option, Scenario
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.authoring.worlds import lagging_servers

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User

TRIES = 5
REPORTS = 4
FIRST_ONLY = Option(
    "only-first-from-cache",
    type=bool,
    default=False,
    help="Only the first try reads the cache; retries ask the store.",
)
FAILED = "reports that failed"


async def node(user: User) -> None:
    """Reports now and then, as a kubelet does; the status is a config map here."""
    from controlplane.client.errors import ApiError
    from controlplane.client.loops.clientset import Client, Resource

    config_maps = Resource("", "v1", "configmaps")
    client = Client(user.ctx, user.cluster.address("node"))
    for number in range(REPORTS):
        await user.sleep(10)
        for attempt in range(TRIES):
            cached = attempt == 0 or not user.options["only_first_from_cache"]
            query = {"resourceVersion": "0"} if cached else {}
            try:
                found = await client.get(config_maps, "default", "status", **query)
                data = {**(found.tree.get("data") or {}), "kubelet": str(number)}
                await client.update(config_maps, {**found.tree, "data": data})
            except ApiError:
                continue
            break
        else:
            user.notes[FAILED] = f"report {number} failed {TRIES} times"


async def others(user: User) -> None:
    """The same object is written by others, at the same time."""
    await user.create(config_map("status"))
    for number in range(REPORTS):
        await user.sleep(9)
        found = await user.get("ConfigMap", "status")
        data = {**(found.tree.get("data") or {}), "others": str(number)}
        await user.attempt(user.update({**found.tree, "data": data}))


def a_report_gets_through(run: Run) -> str | None:
    """None failed as often as it may be tried."""
    return run.notes.get(FAILED)


SCENARIO = Scenario(
    "race 37725",
    workload={"others": others, "node": node},
    build=lagging_servers(kubelets=False, controllers=False),
    invariants=(Invariant("a report gets through", a_report_gets_through, ("node",)),),
    options=(FIRST_ONLY,),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    title="a status that is read from the cache at every retry is never written",
    issue="37725",
    releases="fixed upstream",
    component="kubelet",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="of five tries to write a status, one gets through",
    scenario=SCENARIO,
    schedules=60,
    broken={"only_first_from_cache": False},
    fixed={"only_first_from_cache": True},
)
