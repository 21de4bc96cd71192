"""Nodes by zone, and the order that spreads the search over zones.

Upstream: `pkg/scheduler/backend/cache/node_tree.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.node import Node

BETA_REGION = "failure-domain.beta.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"


def zone_key(node: Node) -> str:
    """Region and zone of a node as one key, "" when it has neither; old labels win."""
    labels = node.metadata.labels
    zone = labels[BETA_ZONE] if BETA_ZONE in labels else labels.get(ZONE, "")
    region = labels[BETA_REGION] if BETA_REGION in labels else labels.get(REGION, "")
    if not region and not zone:
        return ""
    return f"{region}:\0:{zone}"


class NodeTree:
    """Zones in order of first appearance, nodes in order of insertion within their zone."""

    __slots__ = ("_zones", "count")

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self.count = 0

    def add(self, node: Node) -> None:
        """Insert a node; one that is there already stays where it is."""
        names = self._zones.setdefault(zone_key(node), {})
        if node.metadata.name not in names:
            names[node.metadata.name] = None
            self.count += 1

    def remove(self, node: Node) -> bool:
        """Take a node out of its zone; False when it was not there."""
        key = zone_key(node)
        names = self._zones.get(key)
        if names is None or node.metadata.name not in names:
            return False
        del names[node.metadata.name]
        if not names:
            del self._zones[key]
        self.count -= 1
        return True

    def update(self, old: Node | None, new: Node) -> None:
        """Move a node whose zone changed to the end of its new zone."""
        if old is not None:
            if zone_key(old) == zone_key(new):
                return
            self.remove(old)
        self.add(new)

    def names(self) -> list[str]:
        """All names: the first of every zone, then the second of every zone, and so on."""
        zones = [list(names) for names in self._zones.values()]
        out: list[str] = []
        round_ = 0
        while zones:
            zones = [names for names in zones if round_ < len(names)]
            out.extend(names[round_] for names in zones)
            round_ += 1
        return out
