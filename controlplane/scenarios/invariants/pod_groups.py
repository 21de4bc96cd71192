"""Invariants of pod groups: gangs are whole, and the scheduler knows who is in which group."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup
    from controlplane.scenarios.engine.run import Run

__all__ = ["A_GANG_IS_BOUND_WHOLLY_OR_NOT_AT_ALL", "AT_REST_MEMBERS_ARE_KNOWN"]


def _members(run: Run) -> dict[tuple[str, str], list[Pod]]:
    """All pods of each group, by namespace and name of the group."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for obj in run.objects("/registry/pods/"):
        pod = cast("Pod", obj.view)
        if pod.spec.scheduling_group is not None:
            key = (pod.namespace, pod.spec.scheduling_group.pod_group_name)
            found.setdefault(key, []).append(pod)
    return found


def _gangs(run: Run) -> Iterator[tuple[PodGroup, int]]:
    for obj in run.objects("/registry/podgroups/"):
        group = cast("PodGroup", obj.view)
        if group.spec.scheduling_policy.gang is not None:
            yield group, group.spec.scheduling_policy.gang.min_count


def _halves(run: Run) -> str | None:
    """Name a gang of which some pods run, but fewer than it needs, although enough of them are there."""
    members = _members(run)
    for group, least in _gangs(run):
        pods = members.get((group.namespace, group.name), [])
        bound = sum(1 for pod in pods if pod.spec.node_name)
        if 0 < bound < least <= len(pods):
            return f"{bound} of {len(pods)} pods of {group.name} are bound, and it needs {least}"
    return None


def _unknown(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None or core.cache.pod_groups is None:
        return None
    states, members = core.cache.pod_groups, _members(run)
    for key in {**members, **dict.fromkeys(states)}:
        there = {pod.uid: pod for pod in members.get(key, ())}
        state = states.get(key)
        known = {} if state is None else state.all
        if set(known) != set(there):
            return f"the scheduler counts {len(known)} pods of {key[1]}, and {len(there)} are there"
        bound = {uid for uid, pod in there.items() if pod.spec.node_name}
        if state is not None and set(state.assigned) != bound:
            return f"the scheduler takes {len(state.assigned)} pods of {key[1]} for bound, not {len(bound)}"
    return None


A_GANG_IS_BOUND_WHOLLY_OR_NOT_AT_ALL = Invariant(
    "a gang is bound wholly or not at all once quiet", _halves
)
"""Holds where nothing but the scheduler takes single pods of a gang away."""
AT_REST_MEMBERS_ARE_KNOWN = Invariant("the scheduler knows the pods of each group", _unknown)
