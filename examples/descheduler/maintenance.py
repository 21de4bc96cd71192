"""A plugin of the descheduler: moves pods off nodes whose maintenance is announced in a label.

    controlplane run examples/descheduler/maintenance.yaml --nodes 2 --with descheduler \
        --descheduler-policy examples/descheduler/maintenance-policy.yaml \
        --descheduler-plugin examples/descheduler/maintenance.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.descheduler.framework import (
    DeschedulePlugin,
    Evicting,
    EvictorPlugin,
    Handle,
    Node,
    Pod,
)


class Maintenance(DeschedulePlugin, EvictorPlugin):
    """Evicts the pods of nodes with a label, but those that ask to stay."""

    name = "Maintenance"

    def __init__(self, args: Mapping[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self._label = args.get("label", "example.com/maintenance")
        if not self._label:
            raise ValueError("label: expected the name of a label")

    def deschedule(self, nodes: list[Node]) -> Evicting:
        for node in nodes:
            if self._label in node.metadata.labels:
                pods = self.handle.world.running_on(node.metadata.name, self.handle.may_go)
                yield from self.handle.evict_each(pods, self.name)

    def filter(self, pod: Pod) -> bool:
        return pod.metadata.labels.get("example.com/stays") != "true"
