"""Decisions of the node lifecycle controller about one node: its health, and the taints that follow.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go. Times are nanoseconds; whether
a node lives is judged by when *this* controller saw a heartbeat change, not by the times in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from attrs import define

from controlplane.api.taints import NO_EXECUTE, NO_SCHEDULE
from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.coordination import Lease
    from controlplane.api.node import Node, NodeCondition
    from controlplane.api.pod import Pod

MONITOR_PERIOD_NS = 5 * SECOND
MONITOR_GRACE_NS = 50 * SECOND
STARTUP_GRACE_NS = 60 * SECOND
LEASE_NAMESPACE = "kube-node-lease"

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
EXCLUDED = "node.kubernetes.io/exclude-disruption"
_CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS = frozenset({*_CONDITION_TAINTS.values(), UNSCHEDULABLE})
_MONITORED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LABEL_COPIES = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


class TaintChange(NamedTuple):
    """Taints to add and to remove, as (key, effect)."""

    add: tuple[tuple[str, str], ...]
    remove: tuple[tuple[str, str], ...]


def ready_condition(node: Node) -> NodeCondition | None:
    """The node's Ready condition."""
    return next((found for found in node.status.conditions if found.type == "Ready"), None)


def is_ready(node: Node) -> bool:
    """Return whether the node's Ready condition is True."""
    found = ready_condition(node)
    return found is not None and found.status == "True"


def has_taint(node: Node, key: str, effect: str) -> bool:
    """Return whether the node has a taint with that key and effect."""
    return any(taint.key == key and taint.effect == effect for taint in node.spec.taints)


def scheduling_taints(node: Node) -> TaintChange:
    """Return the changes that make the NoSchedule taints of the node follow its conditions; other taints stay."""
    wanted = [
        key
        for found in node.status.conditions
        if (key := _CONDITION_TAINTS.get((found.type, found.status))) is not None
    ]
    if node.spec.unschedulable:
        wanted.append(UNSCHEDULABLE)
    known = [
        taint.key
        for taint in node.spec.taints
        if taint.effect == NO_SCHEDULE and taint.key in _OURS
    ]
    return TaintChange(
        tuple((key, NO_SCHEDULE) for key in wanted if key not in known),
        tuple((key, NO_SCHEDULE) for key in known if key not in wanted),
    )


def eviction_taints(status: str) -> TaintChange | None:
    """The NoExecute taint that a Ready condition of that status calls for; None when it is True."""
    if status == "True":
        return None
    add, remove = (NOT_READY, UNREACHABLE) if status == "False" else (UNREACHABLE, NOT_READY)
    return TaintChange(((add, NO_EXECUTE),), ((remove, NO_EXECUTE),))


def with_taints(taints: Iterable[Tree], add: Iterable[tuple[str, str]], now: int) -> list[Tree]:
    """Taints with others added; one that is there already gets a new time, in its place."""
    changed = list(taints)
    for key, effect in add:
        made = {"key": key, "effect": effect, "timeAdded": format_time(now)}
        at = [taint["key"] == key and taint["effect"] == effect for taint in changed]
        if any(at):
            changed[at.index(True)] = made
        else:
            changed.append(made)
    return changed


def without_taints(taints: Iterable[Tree], remove: Iterable[tuple[str, str]]) -> list[Tree]:
    """Taints without those."""
    gone = set(remove)
    return [taint for taint in taints if (taint["key"], taint["effect"]) not in gone]


def missing_labels(node: Node) -> dict[str, str]:
    """Labels under their old names that do not equal those under the new ones."""
    labels = node.labels
    return {
        old: labels[new]
        for new, old in _LABEL_COPIES.items()
        if new in labels and labels.get(old) != labels[new]
    }


def zone_of(node: Node) -> str:
    """The zone by which evictions are limited; "" when the node names neither region nor zone."""
    labels = node.labels
    region, zone = (
        labels.get(f"topology.kubernetes.io/{part}")
        or labels.get(f"failure-domain.beta.kubernetes.io/{part}", "")
        for part in ("region", "zone")
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


# ---------------------------------------------------------------------- health


@define
class Health:
    """State of one node in the controller.

    `heartbeat` is that of the Ready condition last seen (None without one), `probed_at` when the
    node was last heard of, `renewed` the renew time of the lease last seen, `status` the Ready
    status as judged last.
    """

    heartbeat: int | None
    probed_at: int
    renewed: int | None = None
    status: str | None = None


class Probe(NamedTuple):
    """One look at a node: Ready before and after, and the conditions to be written if it fell silent.

    `after` is None when the node has no Ready condition and is still in its startup grace period.
    """

    before: str
    after: str | None
    conditions: list[Tree] | None = None


class HealthBook:
    """The last sign of life of each node."""

    __slots__ = ("_grace", "_known", "_startup_grace")

    def __init__(
        self, grace_ns: int = MONITOR_GRACE_NS, startup_grace_ns: int = STARTUP_GRACE_NS
    ) -> None:
        self._grace = grace_ns
        self._startup_grace = startup_grace_ns
        self._known: dict[str, Health] = {}

    def is_down(self, name: str) -> bool:
        """Return whether the node was judged not ready when it was looked at last."""
        known = self._known.get(name)
        return known is not None and known.status not in {None, "True"}

    def restart_clocks(self, now: int) -> None:
        """Take every node for healthy as of now, after a time without the API server."""
        for health in self._known.values():
            health.probed_at = now

    def probe(self, node: Node, lease: Lease | None, now: int) -> Probe:
        """Note what is new of a node, and judge whether it has been silent for too long."""
        ready = ready_condition(node)
        known = self._known.get(node.name)
        last = known.renewed if known is not None else None
        health = self._note(node, ready, now)
        renewed = lease.spec.renew_time if lease is not None else None
        if renewed is not None and (last is None or last < renewed):
            health.renewed = renewed
            health.probed_at = now
        grace = self._startup_grace if ready is None else self._grace
        before = ready.status if ready is not None else "Unknown"
        if now <= health.probed_at + grace:
            health.status = ready.status if ready is not None else None
            return Probe(before, health.status)
        health.status = "Unknown"
        if ready is not None and ready.status == "Unknown":
            return Probe(before, "Unknown")
        return Probe(before, "Unknown", _silent_conditions(node, now))

    def _note(self, node: Node, ready: NodeCondition | None, now: int) -> Health:
        """Any change of the Ready condition's heartbeat counts as hearing of the node.

        It makes upstream forget the lease, so that the next look takes it for a fresh one.
        """
        heartbeat = (ready.last_heartbeat_time or 0) if ready is not None else None
        known = self._known.get(node.name)
        if known is None:
            since = now if ready is not None else node.metadata.creation_timestamp or now
            known = self._known[node.name] = Health(heartbeat, since)
        elif heartbeat != known.heartbeat:
            known.heartbeat = heartbeat
            known.probed_at = now
            known.renewed = None
        return known


def _silent_conditions(node: Node, now: int) -> list[Tree]:
    """All monitored conditions Unknown; what was Unknown before stays as it is."""
    conditions = list((node.tree.get("status") or {}).get("conditions") or ())
    types = [found["type"] for found in conditions]
    for kind in _MONITORED:
        if kind not in types:
            conditions.append(
                {
                    "type": kind,
                    "status": "Unknown",
                    "lastHeartbeatTime": format_time(node.metadata.creation_timestamp or now),
                    "lastTransitionTime": format_time(now),
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                }
            )
            continue
        at = types.index(kind)
        if conditions[at]["status"] != "Unknown":
            conditions[at] = {
                **conditions[at],
                "status": "Unknown",
                "lastTransitionTime": format_time(now),
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            }
    return conditions


def not_ready_conditions(pod: Pod, now: int) -> list[Tree] | None:
    """The pod's conditions with Ready False, because its node is not ready; None if nothing changes."""
    conditions: Sequence[Tree] = (pod.tree.get("status") or {}).get("conditions") or ()
    changed = [
        {**found, "status": "False", "lastTransitionTime": format_time(now)}
        if found["type"] == "Ready" and found["status"] != "False"
        else found
        for found in conditions
    ]
    return changed if changed != list(conditions) else None
