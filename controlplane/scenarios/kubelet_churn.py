"""The default churn for kubelets: one workload that aims at nothing, for finding races blind.

Somebody creates, resizes, deletes and recreates pods under a few names on nodes that give containers CPUs of
their own: pods with and without such CPUs, some that end by themselves, some that are slow to stop; resizes that
fit, that have to wait and that never will, several in a row; deletions in good order and by force. Kubelets crash
and begin again, and are cut off from the API server for a while, if the option says so. What happens next is a
choice each time, a refusal or a broken connection is shrugged off, and what is there at the end stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.times import SECOND
from controlplane.scenarios.invariants.nodes import (
    checkpoints_agree,
    kubelets_start,
    no_condition_means_done,
    no_two_run_on_one_cpu,
    nothing_is_handed_out_twice,
    running_containers_keep_their_cpus,
    statuses_are_their_own,
)
from controlplane.scenarios.option import Option
from controlplane.scenarios.scenario import Invariant, Scenario
from controlplane.scenarios.workloads import own_cpus, pod
from controlplane.scenarios.worlds import nodes_with_managers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.scenarios.setting import Setting
    from controlplane.scenarios.user import User

Tree = dict[str, Any]
PODS = ("a", "b", "c", "d")
NODE = "node-1"
SIZES = ("500m", "1", "1500m", "3", "64")
"""CPU requests of a resize: some fit, some have to wait for others to go, the last fits no node."""
PAUSES = (0, 0, 1, 4, 12)
SOON = (1, 4, 12, 30)
"""After so many steps something fails: in the midst of what was just begun."""
OUTAGES_S = (0.5, 15)

OPERATIONS = Option(
    "operations", type=int, low=1, default=14, help="How many things the user does."
)
FAULTS = Option(
    "faults", type=bool, default=True, help="Whether kubelets crash and connections are cut."
)


async def churn(user: User) -> None:
    """One thing after the other, with pauses of any length or none."""
    for _ in range(user.options["operations"]):
        await _something(user, PODS[user.choose(len(PODS), "which pod")])
        pause = PAUSES[user.choose(len(PAUSES), "pause")]
        if pause:
            await user.sleep(pause)
    await user.sleep(60)


async def _something(user: User, name: str) -> None:
    if name not in [each.name for each in user.run.objects("/registry/pods/")]:
        await user.attempt(user.create(_pod(user, name)))
        return
    todo: list[Callable[[User, str], Coroutine[Any, Any, None]]]
    todo = [_resize, _resize, _resize_twice, _delete, _delete]
    if user.options["faults"]:
        todo += [_restart, _cut]
    await todo[user.choose(len(todo), "what")](user, name)


def _pod(user: User, name: str) -> Tree:
    stops_s = (0, 8)[user.choose(2, "how it stops")]
    if user.choose(2, "CPUs of its own"):
        tree = own_cpus(name, str(1 + user.choose(3, "CPUs")), NODE, stops_s=stops_s)
    else:
        tree = pod(name, SIZES[user.choose(3, "what size")], nodeName=NODE)
    if user.choose(4, "ends by itself") == 3:
        tree["spec"]["restartPolicy"] = "Never"
        tree["metadata"].setdefault("annotations", {})["emulate.controlplane/run-seconds"] = "5"
    return tree


async def _resize(user: User, name: str) -> None:
    size = SIZES[user.choose(len(SIZES), "to what size")]
    await user.attempt(user.resize(name, "main", cpu=size))


async def _resize_twice(user: User, name: str) -> None:
    await _resize(user, name)
    await user.sleep(user.choose(3, "between two resizes"))
    await _resize(user, name)


async def _delete(user: User, name: str) -> None:
    grace = (1, 0, 30)[user.choose(3, "grace")]
    await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))
    if user.choose(2, "recreate at once"):
        await user.attempt(user.create(_pod(user, name)))


async def _restart(user: User, _name: str) -> None:
    ctx = user.ctx

    def strike() -> None:
        user.crash(NODE)
        user.restart(NODE)

    ctx.at_step(ctx.step + SOON[ctx.choose("fault", len(SOON), "how soon")], strike)


async def _cut(user: User, _name: str) -> None:
    """The kubelet and the API server are cut off from each other for a while."""
    ctx = user.ctx
    lasts = OUTAGES_S[ctx.choose("fault", len(OUTAGES_S), "how long")]
    user.cut("apiserver", NODE)
    ctx.at_time(ctx.now + round(lasts * SECOND), lambda: user.heal("apiserver", NODE))


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """Without faults also what containers run on, which a kubelet that restarts may have forgotten, as upstream."""
    found = (
        nothing_is_handed_out_twice(NODE),
        checkpoints_agree(NODE),
        kubelets_start(NODE),
        statuses_are_their_own(NODE),
        no_condition_means_done(NODE),
        no_two_run_on_one_cpu(NODE),
    )
    if setting[FAULTS.key]:
        return found
    return (*found, running_containers_keep_their_cpus(NODE))


SCENARIO = Scenario(
    "kubelet-churn",
    workload=churn,
    build=nodes_with_managers(),
    invariants=invariants,
    options=(OPERATIONS, FAULTS),
    defaults={"nodes": 1, "node_cpu": "7"},
)
