"""What faults in a campaign, by kind: processes die, are cut off, slow, refused, and told what is not so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from controlplane.api.request import Response
from controlplane.api.times import SECOND
from controlplane.apiserver.loops.etcd import ETCD
from controlplane.apiserver.schema import status
from controlplane.cluster import Cluster
from controlplane.scenarios.authoring import faults
from controlplane.scenarios.authoring.faults import Operation
from controlplane.scenarios.authoring.nemesis import InjectedFault, compacted
from controlplane.scenarios.engine.scenario import Fault
from controlplane.scenarios.engine.user import User

MOST = (1, 2, 4, 12)
"""How many faults there are at most in a run."""
LASTS_S = (1, 5, 40, 200)
OUTLASTS_S = (*LASTS_S, 400)
"""One more than pods stay on a node that is not heard of."""
COUNTS = (1, 3, 10)
"""How many requests in a row are answered with an error."""
RELENTS_S = LASTS_S[-1]
"""What faults the next requests faults no others than those of so long: whoever asks once in five minutes, or
backs off that far, would be struck until long after all had to be well."""
STEPS = 24
SUPERVISED_S = 10
"""How often it is looked whether a process has ended by itself, as upstream's do that cannot go on; then it is
started again, as whatever keeps processes alive would do."""
ERRORS = {
    "409": status.ApiError(409, "Conflict", "the object has been modified", {}),
    "429": status.too_many_requests("the server has received too many requests", 1),
    "500": status.internal_error("the store is unavailable"),
    "503": status.ApiError(503, "ServiceUnavailable", "the server is shutting down", {}),
    "504": status.timeout("request did not complete within the allotted timeout", 0),
}
DONE = {
    "500": status.plain_error("etcdserver: request timed out"),
    "504": status.timeout("request did not complete within the allotted timeout", 0),
}
"""What is also answered when it has been done."""


def _relenting(one: str, other: str, faults: Operation) -> Operation:
    """What faults coming requests, for a while."""

    def does(user: User) -> None:
        faults.does(user)
        user.ctx.faults.at_time(
            user.ctx.now + RELENTS_S * SECOND, partial(user.ctx.faults.relent, one, other)
        )

    return Operation(faults.name, does)


def _refused(one: str, other: str, code: str, count: int) -> Operation:
    error = ERRORS[code]
    answer = Response(error.code, error.tree)
    refuse = Operation(
        "refuse",
        lambda user: user.ctx.faults.intercept(one, other, answer, count=count, label=code),
    )
    return _relenting(one, other, refuse)


def _denied(one: str, other: str, code: str, count: int) -> Operation:
    error = DONE[code]
    answer = Response(error.code, error.tree)
    deny = Operation(
        "deny", lambda user: user.ctx.faults.alter(one, other, answer, count=count, label=code)
    )
    return _relenting(one, other, deny)


def _lost(one: str, other: str) -> Operation:
    return _relenting(one, other, faults.lose(one, other))


def _all(what: Callable[[str], Operation], names: Sequence[str]) -> Operation:
    """All processes die at once, or begin again."""

    def does(user: User) -> None:
        for name in names:
            operation = what(name)
            if user.run.world.alive(name) is (operation.name == "crash"):
                operation.does(user)

    return Operation("blackout", does)


def _mortal(cluster: Cluster) -> list[str]:
    """Who may die."""
    shared = (ETCD,) if len(cluster.apiservers) > 1 else ()
    return [*cluster.components(), *cluster.storage_processes, *cluster.csi_drivers, *shared]


def of(cluster: Cluster) -> dict[str, list[InjectedFault]]:
    """What may fault the processes of a cluster, by kind."""
    servers = cluster.apiservers
    clients = [
        name
        for name in (*cluster.components(), *cluster.storage_processes, "user")
        if name not in servers
    ]
    drivers = tuple(cluster.csi_drivers)
    shared = (ETCD,) if len(servers) > 1 else ()
    mortal = _mortal(cluster)
    ways = [(client, server) for client in clients for server in servers]
    inner = [(server, ETCD) for server in servers if shared]
    inner += [
        (client, driver)
        for client in clients
        for driver in drivers
        if client.startswith(("csi-", "node-"))
    ]
    every = [*ways, *inner]
    found = {
        "crash": [InjectedFault(faults.crash(name), faults.restart(name)) for name in mortal],
        "blackout": [InjectedFault(_all(faults.crash, mortal), _all(faults.restart, mortal))],
        # What a user said before it gave up would arrive when the cut ends, after what it said later.
        "cut": [
            InjectedFault(faults.cut(*way), faults.heal(*way)) for way in every if way[0] != "user"
        ],
        "slow": [
            InjectedFault(faults.delay(*way, seconds), faults.heal(*way))
            for way in every
            for seconds in (0.3, 3)
        ],
        "break": [InjectedFault(faults.break_link(*way)) for way in every],
        "lose request": [InjectedFault(_lost(one, other)) for one, other in every],
        "lose answer": [InjectedFault(_lost(other, one)) for one, other in every],
        **{
            f"refuse {code}": [
                InjectedFault(_refused(*way, code, count)) for way in ways for count in COUNTS
            ]
            for code in ERRORS
        },
        **{
            f"deny {code}": [
                InjectedFault(_denied(*way, code, count)) for way in ways for count in COUNTS
            ]
            for code in DONE
        },
        "compact": [InjectedFault(compacted())],
    }
    return found


def some(window_s: int, lasts_s: Sequence[float] = LASTS_S) -> Fault:
    """Some faults, each at a moment and of a kind that are choices; 0 is none.

    What struck, by kind, stands in the notes of the run as "struck", and who is dead of it as "struck down".
    Who ended itself is started again.
    """

    async def chaos(user: User) -> None:
        ctx = user.ctx
        kinds: Mapping[str, Sequence[InjectedFault]] = of(user.cluster)
        mortal = _mortal(user.cluster)
        names = list(kinds)
        struck = user.notes["struck"] = []
        user.notes["struck down"] = {}
        for _ in range(MOST[ctx.choose("fault", len(MOST), "how many")]):
            which = ctx.choose("fault", len(names) + 1, "which")
            if not which:
                continue
            name = names[which - 1]
            fault = kinds[name][ctx.choose("fault", len(kinds[name]), "whom")]
            at = ctx.now + ctx.choose("fault", 4 * window_s, "when") * SECOND // 4
            soon = ctx.choose("fault", STEPS, "before which step")
            lasts = lasts_s[ctx.choose("fault", len(lasts_s), "how long")] if fault.undoes else 0
            ctx.faults.at_time(at, partial(_planned, user, name, fault, soon, lasts, struck))
        await _supervise(user, mortal)

    return Fault("chaos", chaos)


async def _supervise(user: User, processes: Sequence[str]) -> None:
    ctx = user.ctx
    while True:
        await ctx.sleep(SUPERVISED_S * SECOND, idle=True, point="supervisor")
        for name in processes:
            if not user.run.world.alive(name) and name not in user.notes["struck down"]:
                user.restart(name)


def _planned(
    user: User, name: str, fault: InjectedFault, soon: int, for_s: float, struck: list[str]
) -> None:
    ctx = user.ctx
    ctx.faults.at_step(ctx.step + 1 + soon, partial(_strike, user, name, fault, for_s, struck))


def _strike(user: User, name: str, fault: InjectedFault, for_s: float, struck: list[str]) -> None:
    alive = user.run.world.alive
    if fault.does.actor and not alive(fault.does.actor):
        return
    if name == "blackout" and user.notes["struck down"]:
        return
    struck.append(name)
    fault.does.does(user)
    undoes = fault.undoes
    down = user.notes["struck down"]
    if undoes is not None:
        named = (
            [undoes.actor] if undoes.actor else _mortal(user.cluster) if name == "blackout" else []
        )
        down.update(dict.fromkeys(named))

        def heal() -> None:
            for each in named:
                down.pop(each, None)
            if not undoes.actor or not alive(undoes.actor):
                undoes.does(user)

        user.ctx.faults.at_time(user.ctx.now + round(for_s * SECOND), heal)
