"""The pods that a rolling update of a DaemonSet replaces. Upstream: pkg/controller/daemon/update.go.

Upstream walks the nodes in the order of a Go map; any order is right, here it is that of the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from controlplane.controllers.common.int_or_percent import scaled_value
from controlplane.controllers.workloads.daemon.placement import GENERATION_LABEL, REVISION_LABEL

if TYPE_CHECKING:
    from controlplane.api.apps import DaemonSet
    from controlplane.api.pod import Pod

ROLLING_UPDATE = "RollingUpdate"
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"

ByNode = Mapping[str, Sequence["Pod"]]
Available = Callable[["Pod"], bool]


class Moves(NamedTuple):
    """Pods to delete, by name, and nodes that get a new pod besides the old one."""

    delete: list[str]
    create: list[str]


class _OnNode(NamedTuple):
    new: Pod | None
    old: Pod | None


def template_generation(found: DaemonSet) -> int | None:
    """The generation that old releases numbered templates with; None without or where it is no number."""
    text = found.annotations.get(TEMPLATE_GENERATION)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def is_updated(pod: Pod, digest: str, generation: int | None) -> bool:
    """Return whether the pod was made from the current template."""
    by_generation = generation is not None and pod.labels.get(GENERATION_LABEL) == str(generation)
    return by_generation or (digest != "" and pod.labels.get(REVISION_LABEL) == digest)


def max_surge(found: DaemonSet, total: int) -> int:
    """Return the number of nodes that may have two pods at a time. Raises BadIntOrPercent."""
    rolling = found.spec.update_strategy.rolling_update
    if found.spec.update_strategy.type != ROLLING_UPDATE or rolling is None:
        return 0
    return scaled_value(rolling.max_surge, total, round_up=True)


def max_unavailable(found: DaemonSet, total: int) -> int:
    """Return the number of nodes that may lack an available pod. Raises BadIntOrPercent."""
    rolling = found.spec.update_strategy.rolling_update
    if found.spec.update_strategy.type != ROLLING_UPDATE or rolling is None:
        return 0
    return scaled_value(rolling.max_unavailable, total, round_up=True)


def _on_node(found: DaemonSet, pods: Sequence[Pod], digest: str) -> _OnNode | None:
    """The new and the old pod on a node, those that are being deleted left out; None if there are more."""
    generation = template_generation(found)
    groups: tuple[list[Pod], list[Pod]] = ([], [])
    for pod in pods:
        if pod.metadata.deletion_timestamp is None:
            groups[is_updated(pod, digest, generation)].append(pod)
    old, new = groups
    if len(old) > 1 or len(new) > 1:
        return None
    return _OnNode(new[0] if new else None, old[0] if old else None)


def replace_in_place(
    found: DaemonSet, by_node: ByNode, digest: str, limit: int, available: Available
) -> Moves:
    """Old pods to delete: those that do not serve at any time, others while at most `limit` nodes are without."""
    missing = 0
    replaced: list[str] = []
    candidates: list[str] = []
    for pods in by_node.values():
        here = _on_node(found, pods, digest)
        if here is None or (here.old is None) == (here.new is None):
            missing += 1
        elif here.new is not None:
            missing += not available(here.new)
        elif here.old is not None and not available(here.old):
            replaced.append(here.old.name)
            missing += 1
        elif here.old is not None and missing < limit:
            candidates.append(here.old.name)
    return Moves([*replaced, *candidates[: max(0, limit - missing)]], [])


class _Surge:
    """The actions of an update whose new pods come before old ones go."""

    def __init__(self) -> None:
        self.delete: list[str] = []
        self.misplaced: list[str] = []
        self.must: list[str] = []
        self.may: list[str] = []
        self.surging = 0
        self.available = 0


def replace_with_surge(
    found: DaemonSet,
    by_node: ByNode,
    digest: str,
    limit: int,
    wanted: int,
    available: Available,
    should_run: Callable[[str], bool],
) -> Moves:
    """New pods beside old ones on up to `limit` nodes; an old one goes once the new one serves.

    `wanted` is the number of nodes that are to have a pod: pods on others go only while there are
    more that serve than that.
    """
    surge = _Surge()
    for node, pods in by_node.items():
        here = _on_node(found, pods, digest)
        if here is None:
            surge.surging += 1
            continue
        counted = here.old or here.new
        surge.available += counted is not None and available(counted)
        if here.old is not None:
            _surge_on(surge, node, here.new, here.old, limit, available, should_run)
    spare = max(0, surge.available - wanted)
    delete = [*surge.delete, *surge.misplaced[:spare]]
    return Moves(delete, [*surge.must, *surge.may[: max(0, limit - surge.surging)]])


def _surge_on(
    surge: _Surge,
    node: str,
    new: Pod | None,
    old: Pod,
    limit: int,
    available: Available,
    should_run: Callable[[str], bool],
) -> None:
    if new is not None:
        if available(new):
            surge.delete.append(old.name)
        else:
            surge.surging += 1
    elif not should_run(node):
        (surge.misplaced if available(old) else surge.delete).append(old.name)
    elif not available(old):
        surge.must.append(node)
    elif surge.surging < limit:
        surge.may.append(node)
