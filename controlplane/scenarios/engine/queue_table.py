"""The quota of Kueue's ClusterQueues at the end of a run: nominal, reserved and borrowed amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.run import Run

__all__ = ["COLUMNS", "QueueRow", "queue_rows", "queues_of", "shown"]

COLUMNS: Final = (
    "CLUSTERQUEUE",
    "COHORT",
    "FLAVOR",
    "RESOURCE",
    "NOMINAL",
    "RESERVED",
    "BORROWED",
    "PENDING",
    "ADMITTED",
)
QUEUES: Final = "/registry/kueue.x-k8s.io/clusterqueues/"
COHORTS: Final = "/registry/kueue.x-k8s.io/cohorts/"
_Place = tuple[str, str]
_Sum = tuple[quantity.Quantity, quantity.Quantity, quantity.Quantity]


class QueueRow(NamedTuple):
    """The quota of one resource of one flavor; the queue's workloads are counted in its first row.

    A cohort's row has no queue and the sums over the queues in it: what is borrowed there, the cohort lends.
    """

    queue: str
    cohort: str
    flavor: str
    resource: str
    nominal: str
    reserved: str
    borrowed: str
    pending: str
    admitted: str


def queues_of(run: Run) -> list[QueueRow]:
    """Return the quotas at the end of a run; none where there is no ClusterQueue."""
    queues = [obj.tree for obj in run.objects(QUEUES)]
    return queue_rows(queues, [obj.tree for obj in run.objects(COHORTS)]) if queues else []


def queue_rows(queues: Iterable[Tree], cohorts: Iterable[Tree] = ()) -> list[QueueRow]:
    """Return the rows of each queue by name, and after them those of each cohort, quota of its own included."""
    found: list[QueueRow] = []
    sums: dict[str, dict[_Place, _Sum]] = {}
    for tree in cohorts:
        own = sums.setdefault(tree["metadata"]["name"], {})
        for place, nominal in _nominal(tree.get("spec") or {}):
            own[place] = _plus(own.get(place), (nominal, "0", "0"))
    for tree in sorted(queues, key=lambda each: str(each["metadata"]["name"])):
        name, spec, state = (
            tree["metadata"]["name"],
            tree.get("spec") or {},
            tree.get("status") or {},
        )
        cohort, used = spec.get("cohortName", ""), _used(state)
        pending = str(state.get("pendingWorkloads", 0))
        admitted = str(state.get("admittedWorkloads", 0))
        for place, nominal in _nominal(spec):
            reserved, borrowed = used.get(place, ("0", "0"))
            amounts = (nominal, reserved, borrowed)
            found.append(QueueRow(name, cohort, *place, *amounts, pending, admitted))
            pending = admitted = ""
            if cohort:
                total = sums.setdefault(cohort, {})
                total[place] = _plus(total.get(place), amounts)
    for cohort, totals in sorted(sums.items()):
        for place, (nominals, reserves, borrows) in totals.items():
            row = (cohort, *place, str(nominals), str(reserves), str(borrows))
            found.append(QueueRow("", *row, "", ""))
    return found


def _plus(known: _Sum | None, amounts: tuple[str, str, str]) -> _Sum:
    nominal, reserved, borrowed = map(quantity.parse, amounts)
    if known is None:
        return nominal, reserved, borrowed
    return known[0].add(nominal), known[1].add(reserved), known[2].add(borrowed)


def shown(rows: list[QueueRow]) -> tuple[str, tuple[str, ...], list[QueueRow]]:
    """Return title, columns and rows of a table."""
    return "Quota of ClusterQueues, and of their cohorts", COLUMNS, rows


def _nominal(spec: Tree) -> Iterator[tuple[_Place, str]]:
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                place = flavor.get("name", ""), resource.get("name", "")
                yield place, str(resource.get("nominalQuota", "0"))


def _used(state: Tree) -> dict[_Place, tuple[str, str]]:
    """Return the reserved and the borrowed amounts by flavor and resource."""
    return {
        (flavor.get("name", ""), resource.get("name", "")): (
            str(resource.get("total", "0")),
            str(resource.get("borrowed", "0")),
        )
        for flavor in state.get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }
