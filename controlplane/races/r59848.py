"""Kubernetes issue 59848: a restarted kubelet lists the past, and starts a pod that has moved on.

web-0 of a StatefulSet runs on node-1. It is deleted, node-1 stops it, and it is created again and runs
on node-2. Then node-1's kubelet restarts. Its first list asks for version 0, which any API server may
answer from its cache, however old; it reaches one whose cache still shows web-0 on node-1. The kubelet
starts it: two pods of one identity run at once.

Open since 2018. What helps: a reflector that begins with a stream, whose state is not older than the
request (WatchListClient, on by default from 1.35).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Fault, Invariant, Option, Scenario
from controlplane.scenarios.authoring.small_forms import SMALL, explored_from
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import lagging_servers

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User

NODES = ("node-1", "node-2")
UIDS = "uids of web-0"
LAGGING = "apiserver-2"
SMALL_START_S = 40.0

STREAM = Option(
    "watch-list",
    type=bool,
    default=False,
    help="Clients begin with a stream that is not older than their request (gate WatchListClient).",
)


async def stateful_set(user: User) -> None:
    """Recreates web-0 on the other node, only when its object is gone, as the StatefulSet controller does."""
    uids: list[str] = user.notes.setdefault(UIDS, [])
    small = user.options[SMALL.key]
    for node in NODES:
        tree = pod("web-0", nodeName=node, terminationGracePeriodSeconds=1)
        uids.append((await user.create(tree)).uid)
        await user.sleep(10 if small else 70)
        if node == NODES[-1]:
            return
        if small:
            from controlplane.apiserver.loops.replica import Hold

            user.ctx.send(LAGGING, Hold("pods"))
        await user.delete("Pod", "web-0")
        while await user.exists("Pod", "web-0"):
            await user.sleep(1)


async def restart_kubelet(user: User) -> None:
    """Once web-0 has moved, node-1's kubelet restarts at some moment within a minute.

    In the small form this happens in the instant in which the second server, held back, hears of the move.
    """
    if user.options[SMALL.key]:
        await user.sleep(SMALL_START_S)
        from controlplane.apiserver.loops.replica import Release

        user.ctx.send(LAGGING, Release("pods"))
        user.crash("node-1")
        user.restart("node-1")
        return
    while len(user.notes.get(UIDS, ())) < len(NODES):
        await user.sleep(1)
    await user.sleep((1 + user.ctx.choose("fault", 30, "when")) * 2)
    user.crash("node-1")
    await user.sleep(1)
    user.restart("node-1")


def one_at_most(run: Run) -> str | None:
    """The containers that run on the machines, independent of the API server."""
    uids = run.notes.get(UIDS, ())
    running = [
        node
        for node, machine in run.cluster.machines.items()
        for uid, sandbox in machine.sandboxes.items()
        if uid in uids and sandbox.running()
    ]
    return f"web-0 runs twice: on {' and '.join(running)}" if len(running) > 1 else None


SCENARIO = Scenario(
    "race 59848",
    workload={"statefulset": stateful_set},
    build=lagging_servers(controllers=False, heartbeats=False, kubelet_events=False),
    faults=(Fault("chaos", restart_kubelet),),
    invariants=(Invariant("at most one pod per identity", one_at_most, NODES),),
    options=(STREAM, SMALL),
    explored=explored_from(SMALL_START_S, 0.01),
)
RACE = Race(
    module=__name__,
    title="a restarted kubelet starts a pod of the past",
    issue="59848",
    releases="open upstream; not with a reflector that begins with a stream (on by default from 1.35)",
    component="kubelet",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="at most one pod of an identity runs on all machines",
    scenario=SCENARIO,
    schedules=60,
    broken={"watch_list": False},
    fixed={"watch_list": True},
)
