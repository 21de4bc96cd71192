"""The provider of the autoscaler: the emulated cloud as it was last refreshed, and requests to it.

As providers upstream do, it keeps what it has heard: `Refresh` brings it up to date, and its own requests change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from controlplane.api.node import Node
from controlplane.autoscaler.cloud.fleet import node_of
from controlplane.autoscaler.cloud.messages import (
    CLOUD,
    SCHEME,
    Answer,
    Decrease,
    Delete,
    Describe,
    Description,
    GroupState,
    Increase,
)
from controlplane.autoscaler.cloud.specs import GroupSpec
from controlplane.autoscaler.groups import Cloud, Instance, NodeGroup, Template
from controlplane.autoscaler.options import MINUTE
from controlplane.decisions import Ask, Decision, NoAnswer

_TIMEOUT: Final = MINUTE
Request = Increase | Decrease | Delete


class CloudProvider:
    """The groups of the emulated cloud. Requests return an error, or an empty text."""

    def __init__(self, specs: Sequence[GroupSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._templates = {
            spec.name: Template(Node.from_tree(node_of(spec, f"{spec.name}-template")))
            for spec in specs
        }
        self._groups: dict[str, GroupState] = {}
        self._cloud: Cloud | None = Cloud()

    def cloud(self) -> Cloud:
        """Return the groups as they were last heard of."""
        if self._cloud is None:
            members: dict[str, str] = {}
            for state in self._groups.values():
                for each in state.instances:
                    members[each.id] = members[each.id.removeprefix(SCHEME)] = state.name
            groups = tuple(self._group(state) for state in self._groups.values())
            self._cloud = Cloud(groups, members, scheme=SCHEME)
        return self._cloud

    def _group(self, state: GroupState) -> NodeGroup:
        spec = self._specs[state.name]
        return NodeGroup(
            state.name,
            spec.min_size,
            spec.max_size,
            state.target,
            self._templates[state.name],
            state.instances,
            spec.options,
        )

    def refresh(self) -> Decision[Ask, str]:
        """Ask the cloud for its groups."""
        try:
            found: Description = yield Ask(CLOUD, Describe(), _TIMEOUT, "autoscaler.refresh")
        except NoAnswer as error:
            return str(error)
        self._groups = {each.name: each for each in found.groups}
        self._cloud = None
        return ""

    def increase(self, group: str, size: int) -> Decision[Any, str]:
        """Ask for more nodes."""
        error = yield from self._ask(Increase(group, size), "autoscaler.increase")
        if not error:
            self._change(group, size)
        return error

    def decrease(self, group: str, size: int) -> Decision[Any, str]:
        """Ask for fewer of the nodes that are still to come."""
        error = yield from self._ask(Decrease(group, size), "autoscaler.decrease")
        if not error:
            self._change(group, -size)
        return error

    def delete(self, group: str, names: Sequence[str]) -> Decision[Any, str]:
        """Delete nodes, or instances by their ids."""
        error = yield from self._ask(Delete(group, tuple(names)), "autoscaler.delete")
        if not error:
            ids = {f"{SCHEME}{name.removeprefix(SCHEME)}": None for name in names}
            self._change(group, -len(names), ids)
        return error

    def _ask(self, request: Request, point: str) -> Decision[Ask, str]:
        try:
            answer: Answer = yield Ask(CLOUD, request, _TIMEOUT, point)
        except NoAnswer as error:
            return str(error)
        return answer.error

    def _change(self, group: str, by: int, deleted: dict[str, None] | None = None) -> None:
        state = self._groups[group]
        instances = state.instances
        if deleted:
            instances = tuple(
                Instance(each.id, "Deleting") if each.id in deleted else each for each in instances
            )
        self._groups[group] = replace(state, target=state.target + by, instances=instances)
        self._cloud = None
