"""The machines of the emulated cloud: sizes of groups, instances and their fates. Decisions only; time is its loop's.

The rules of sizes are those of cluster-autoscaler's kwok provider (`cloudprovider/kwok/kwok_nodegroups.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from controlplane.autoscaler.cloud.messages import SCHEME, Description, GroupState
from controlplane.autoscaler.cloud.specs import (
    CREATION_ERROR,
    DELETION_REFUSED,
    LOST,
    NEVER_REGISTERS,
    REFUSED,
    SLOW,
    Failure,
    GroupSpec,
    Tree,
)
from controlplane.autoscaler.groups import Instance
from controlplane.autoscaler.options import SECOND

MOST_EXPLORED: Final = 4
"""The most times that an explored failure happens, where its description does not say: a run has to end."""
_LABELS: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
_HOSTNAME: Final = "kubernetes.io/hostname"

Choose = Callable[[str, int, str], int]
"""A choice of the run: its kind, the number of options, its label."""


def node_of(spec: GroupSpec, name: str) -> Tree:
    """Return the Node of an instance of a group."""
    meta = spec.template["metadata"]
    labels = {_HOSTNAME: name, **_LABELS, **meta["labels"]}
    metadata = {"name": name, "labels": labels}
    if meta["annotations"]:
        metadata["annotations"] = dict(meta["annotations"])
    node_spec = {**spec.template["spec"], "providerID": f"{SCHEME}{name}"}
    return {**spec.template, "metadata": metadata, "spec": node_spec}


@dataclass(frozen=True, slots=True)
class Boot:
    """An instance to be started: its Node, and after how long it comes; a lost one vanishes `lives` later."""

    name: str
    tree: Tree
    after: int
    registers: bool = True
    lives: int | None = None


@dataclass(slots=True)
class _Group:
    spec: GroupSpec
    target: int = 0
    made: int = 0
    instances: dict[str, Instance] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)


class Fleet:
    """All groups with their instances."""

    def __init__(self, specs: Sequence[GroupSpec], choose: Choose) -> None:
        self._groups = {spec.name: _Group(spec) for spec in specs}
        self._choose = choose

    def describe(self) -> Description:
        """Return the groups as they are."""
        return Description(
            tuple(
                GroupState(name, group.target, tuple(group.instances.values()))
                for name, group in self._groups.items()
            )
        )

    def begin(self) -> list[Boot]:
        """Return the instances that are there from the start; they run and come at once."""
        boots: list[Boot] = []
        for group in self._groups.values():
            group.target = group.spec.size
            for _ in range(group.spec.size):
                name = self._new(group)
                lost = self._fails(group, (LOST,))
                lives = None if lost is None else lost.after
                boots.append(Boot(name, node_of(group.spec, name), 0, lives=lives))
        return boots

    def most(self, name: str) -> int:
        """Return the greatest size of a group."""
        return self._groups[name].spec.max_size

    def has(self, name: str) -> bool:
        """Return whether an instance is there, by the name of its Node."""
        return self._group_of(name) is not None

    # -- requests ----------------------------------------------------------------------------------

    def increase(self, name: str, count: int) -> tuple[str, list[Boot]]:
        """Let a group grow: an error, or the instances to start."""
        group = self._groups.get(name)
        if group is None:
            return f"node group {name} not found", []
        if count <= 0:
            return "size increase must be positive", []
        size, most = group.target + count, group.spec.max_size
        if size > most:
            return f"size increase too large, desired: {size} max: {most}", []
        refusal = self._fails(group, (REFUSED,))
        if refusal is not None:
            return refusal.message, []
        group.target = size
        boots = (self._started(group) for _ in range(count))
        return "", [boot for boot in boots if boot is not None]

    def _started(self, group: _Group) -> Boot | None:
        name, spec = self._new(group), group.spec
        after = spec.provision_time + self._jitter(spec, name)
        failure = self._fails(group, (CREATION_ERROR, NEVER_REGISTERS, SLOW, LOST))
        kind = "" if failure is None else failure.type
        if failure is not None and kind == CREATION_ERROR:
            group.instances[name] = Instance(
                f"{SCHEME}{name}",
                "Creating",
                failure.error_class,
                failure.error_code,
                failure.message,
            )
            return None
        group.instances[name] = Instance(f"{SCHEME}{name}", "Creating")
        if failure is not None and kind == SLOW:
            after += failure.after
        lives = failure.after if failure is not None and kind == LOST else None
        return Boot(name, node_of(spec, name), after, kind != NEVER_REGISTERS, lives)

    def decrease(self, name: str, count: int) -> tuple[str, list[str]]:
        """Lower a target: an error, or the names of instances that were still to come and are dropped."""
        group = self._groups.get(name)
        if group is None:
            return f"node group {name} not found", []
        if count <= 0:
            return "size decrease must be negative", []
        running = sum(each.state == "Running" for each in group.instances.values())
        if group.target - count < running:
            told = f"targetSize: {group.target} delta: {-count} existingNodes: {running}"
            return f"attempt to delete existing nodes, {told}", []
        group.target -= count
        coming = [name for name, each in group.instances.items() if each.state == "Creating"]
        dropped = coming[len(coming) - min(count, len(coming)) :]
        for each in dropped:
            del group.instances[each]
        return "", dropped

    def delete(self, name: str, names: Iterable[str]) -> tuple[str, list[str]]:
        """Delete instances: an error, or the names of the Nodes of those that go."""
        group = self._groups.get(name)
        if group is None:
            return f"node group {name} not found", []
        known = [each.removeprefix(SCHEME) for each in names]
        for each in known:
            if each not in group.instances:
                return f"can't delete node '{each}' because it is not of group {name}", []
        if group.target <= group.spec.min_size:
            return "min size reached, nodes will not be deleted", []
        if group.target - len(known) < group.spec.min_size:
            return "can't delete nodes because nodegroup size would go below min size", []
        refusal = self._fails(group, (DELETION_REFUSED,))
        if refusal is not None:
            return refusal.message, []
        group.target -= len(known)
        for each in known:
            old = group.instances[each]
            group.instances[each] = Instance(old.id, "Deleting")
        return "", known

    # -- fates -------------------------------------------------------------------------------------

    def runs(self, name: str) -> bool:
        """Note that an instance runs; False where it is not there any more."""
        group = self._group_of(name)
        if group is None or group.instances[name].state != "Creating":
            return False
        group.instances[name] = Instance(f"{SCHEME}{name}")
        return True

    def gone(self, name: str) -> tuple[bool, Boot | None]:
        """Note that an instance is not there any more: whether it was, and the one that takes its place, if any."""
        name = name.removeprefix(SCHEME)
        group = self._group_of(name)
        if group is None:
            return False, None
        lost = group.instances.pop(name).state != "Deleting"
        return True, self._started(group) if lost and group.spec.replaces_lost else None

    # -- parts -------------------------------------------------------------------------------------

    def _new(self, group: _Group) -> str:
        group.made += 1
        name = f"{group.spec.name}-{group.made}"
        group.instances[name] = Instance(f"{SCHEME}{name}", "Creating")
        return name

    def _group_of(self, name: str) -> _Group | None:
        return next((each for each in self._groups.values() if name in each.instances), None)

    def _jitter(self, spec: GroupSpec, name: str) -> int:
        """Return what an instance takes longer: a number of seconds, as a choice of the run."""
        seconds = spec.jitter // SECOND
        if not seconds:
            return 0
        return self._choose("cloud.jitter", seconds + 1, f"provisioning of {name}") * SECOND

    def _fails(self, group: _Group, types: Sequence[str]) -> Failure | None:
        """Return the first failure of these types that holds for the next request or instance of a group."""
        for at, failure in enumerate(group.spec.failures):
            most, spent = failure.count, group.spent.get(at, 0)
            if most is None and failure.explored:
                most = MOST_EXPLORED
            if failure.type not in types or (most is not None and spent >= most):
                continue
            if failure.explored:
                label = f"{failure.type} in {group.spec.name}"
                if not self._choose("cloud.failure", 2, label):
                    continue
            group.spent[at] = spent + 1
            return failure
        return None
