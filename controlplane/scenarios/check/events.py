"""Events as data: what happens to every cluster, and what a configuration is tried under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.scenarios.check.subject import cpu_request, is_spot, name_of, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controlplane.api.tree import Tree
    from controlplane.scenarios.check.subject import Scaler, Subject

__all__ = [
    "KINDS",
    "Event",
    "EventKind",
    "alike",
    "events_of",
    "lasts",
    "pairs_of",
    "parse",
    "unknown_target",
    "without_alike",
]


@frozen
class EventKind:
    """A kind of event: what it does to its target, and what ends it.

    `lasts` means that an event which follows it in a pair happens while it lasts (`lasts`).
    `removes` means that it takes nodes away, `asked` that it is tried only when it is asked for.
    """

    name: str
    target: str
    says: str
    ends: str = ""
    lasts: bool = False
    removes: bool = False
    asked: bool = False


KINDS: Final = {
    kind.name: kind
    for kind in (
        EventKind("apply", "", "the manifests are applied again"),
        EventKind(
            "load",
            "WORKLOAD",
            "the load of {} rises to its maximum",
            "the load of {} falls",
            lasts=True,
        ),
        EventKind("rollout", "WORKLOAD", "{} is updated"),
        EventKind(
            "start",
            "WORKLOAD",
            "{} is updated, and its pods need CPU for their first two minutes",
            asked=True,
        ),
        EventKind("drain", "NODE", "{} is drained", "{} is uncordoned", removes=True),
        EventKind(
            "taint", "NODE", "{} gets a NoExecute taint", "the taint of {} goes", removes=True
        ),
        EventKind("lose", "NODE", "{} is lost", "{} comes back", removes=True),
        EventKind("spot", "NODE", "spot {} is taken", removes=True),
        EventKind("lose-zone", "ZONE", "zone {} is lost", "zone {} comes back", removes=True),
    )
}
"""In the order in which they are tried."""
MOST_NODES: Final = 4
"""The number of nodes that are drained, tainted and lost one by one; of more, those that differ come first."""


@frozen
class Event:
    """One event; its text is KIND or KIND:TARGET."""

    kind: EventKind
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name}:{self.target}" if self.target else self.kind.name

    @property
    def begins(self) -> str:
        """The sentence for the event itself."""
        return self.kind.says.format(self.target)

    @property
    def ends(self) -> str:
        """The sentence for its end, "" for an event without one."""
        return self.kind.ends.format(self.target)


def parse(text: str) -> Event:
    """Read an event. Raises ValueError with what was expected."""
    name, colon, target = text.partition(":")
    kind = KINDS.get(name)
    if kind is None or bool(kind.target) != bool(colon and target):
        raise ValueError(f"an event, one of {', '.join(map(usage, KINDS.values()))}")
    return Event(kind, target)


def unknown_target(subject: Subject, event: Event) -> bool:
    """Return whether the configuration does not have what the event happens to."""
    if event.kind.removes:
        return False  # nodes come and go, as an autoscaler has them
    return event.target not in {"", *_targets(subject, event.kind.name)}


def usage(kind: EventKind) -> str:
    """The form of its events: `drain:NODE`."""
    return f"{kind.name}:{kind.target}" if kind.target else kind.name


def events_of(subject: Subject, *, asked: bool = False) -> tuple[Event, ...]:
    """The events that this configuration can be tried under, one at a time, the cheapest first.

    With `asked`, also those that are tried only when they are asked for.
    """
    return tuple(
        Event(kind, target)
        for kind in KINDS.values()
        if asked or not kind.asked
        for target in _targets(subject, kind.name)
    )


def _targets(subject: Subject, kind: str) -> Iterator[str]:
    if kind == "apply":
        if subject.workloads:
            yield ""
    elif kind in ("load", "start"):
        yield from (each.target for each in subject.scalers if has_load(subject, each))
    elif kind == "rollout":
        yield from (each.key for each in subject.workloads if each.kind in ROLLED)
    elif kind == "lose-zone":
        zones = subject.zones()
        yield from zones if len(zones) > 1 else ()
    elif kind == "spot":
        yield from (name_of(node) for node in tried_nodes(subject.nodes) if is_spot(node))
    else:
        yield from map(name_of, tried_nodes(subject.nodes))


ROLLED: Final = ("Deployment", "StatefulSet")
"""Kinds whose template can be updated while they run."""


def has_load(subject: Subject, scaler: Scaler) -> bool:
    """Return whether the autoscaler goes by CPU in percent of requests that the pods have."""
    workload = subject.workload(scaler.target)
    return scaler.cpu is not None and workload is not None and cpu_request(workload.pod_spec) > 0


def tried_nodes(nodes: Sequence[Tree]) -> list[Tree]:
    """The nodes that are taken away one by one: one of each sort, then others; none of a cluster with one node."""
    able = [each for each in nodes if not (each.get("spec") or {}).get("unschedulable")]
    if len(able) < 2:
        return []
    first: dict[str, Tree] = {}
    for node in able:
        first.setdefault(_sort_of(node), node)
    others = [node for node in able if not any(node is each for each in first.values())]
    chosen = [*first.values(), *others][: max(MOST_NODES, len(first))]
    return [node for node in able if any(node is each for each in chosen)]


def _sort_of(node: Tree) -> str:
    """The traits by which nodes differ for pods: zone, labels other than the name, taints, size."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    kept = sorted((key, value) for key, value in labels.items() if value != name_of(node))
    taints = (node.get("spec") or {}).get("taints") or []
    size = (node.get("status") or {}).get("allocatable") or {}
    return repr((zone_of(node), kept, taints, sorted(size.items())))


def alike(subject: Subject, pods: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """By node, the first node of its sort with the same pods: an event on one shows what it shows on the other.

    Args:
        subject: the configuration.
        pods: by node, the workloads of its pods, one entry for each pod.
    """
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    found = {}
    for node in subject.nodes:
        name = name_of(node)
        found[name] = first.setdefault((_sort_of(node), tuple(sorted(pods.get(name, ())))), name)
    return found


def without_alike(events: Iterable[Event], same: Mapping[str, str]) -> list[Event]:
    """The events without those on a node that is like another one."""
    return [each for each in events if same.get(each.target, each.target) == each.target]


BEFORE: Final = ("load", "drain", "lose")
AFTER: Final = ("load", "rollout", "drain", "lose", "apply")
"""Kinds of events that come first and second in pairs: others move pods as one of these does."""


def lasts(event: Event, following: Event | None) -> bool:
    """Return whether an event still holds while the following one happens.

    Load lasts, and an update or load comes while a node is away; of two nodes the first is back when the second goes.
    """
    return event.kind.lasts or (
        following is not None and following.kind.name in ("load", "rollout")
    )


def pairs_of(events: Sequence[Event], same: Mapping[str, str]) -> Iterator[tuple[Event, Event]]:
    """Pairs of events that show what neither shows alone; nodes that go one after the other come first."""
    found = [
        (one, other)
        for one in without_alike(events, same)
        for other in events
        if one.kind.name in BEFORE and other.kind.name in AFTER and _meet(one, other)
    ]
    yield from sorted(found, key=lambda pair: not (pair[0].kind.removes and pair[1].kind.removes))


def _meet(one: Event, other: Event) -> bool:
    if one.target == other.target and one.kind.removes:
        return False
    if other.kind.name == "apply":
        return one.kind.name == "load"
    return one != other
