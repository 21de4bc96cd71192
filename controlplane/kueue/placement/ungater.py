"""Let the pods of admitted workloads go, each to its topology domain.

Pods with readable ranks go to the domain of their rank, others fill the domains in order. What was let go is
expected to be seen before the next look. Follows `pkg/controller/tas/topology_ungater.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.client.errors import RequestFailed
from controlplane.decisions import Together
from controlplane.kueue.controllers.effects import Done, MergePatch, Reader, ReconcileError
from controlplane.kueue.jobs.expectations import Expectations
from controlplane.kueue.names import POD_SET, TOPOLOGY_GATE
from controlplane.kueue.placement.pods import (
    annotations_of,
    is_admitted_to_domains,
    is_over,
    is_placed,
    pods_of,
    waits_for_domain,
    workload_of,
)
from controlplane.kueue.topology.assignment import Assignment, assignment_of, ends_at_nodes

if TYPE_CHECKING:
    from controlplane.api.tree import Tree

OFFSET: Final = "kueue.x-k8s.io/pod-index-offset"
Target = tuple["Tree", tuple[str, ...]]
"""A pod and the values of its domain."""


@frozen
class TopologyUngater:
    """Reconciles Workloads with topology assignments.

    Args:
        reader: Informer caches.
        expectations: Pods that were let go and have not been seen so yet, by workload.
    """

    reader: Reader
    expectations: Expectations = field(factory=Expectations)

    # -- events ------------------------------------------------------------------------------------

    def pod_changed(self, old: Tree | None, new: Tree | None) -> str | None:
        """A pod changed; the key of the Workload to reconcile, None if it is not concerned."""
        pod = new or old or {}
        name = workload_of(pod)
        if not is_placed(pod) or name is None:
            return None
        namespace = pod["metadata"].get("namespace", "")
        if new is None or not waits_for_domain(pod):
            self.expectations.observed((namespace, name), pod["metadata"].get("uid", ""))
        return f"{namespace}/{name}"

    # -- reconcile ---------------------------------------------------------------------------------

    def reconcile(self, key: str) -> Generator[Any, Any, Done]:
        """Let the pods of one Workload go."""
        namespace, name = key.split("/", 1)
        workload = self.reader.get("Workload", namespace, name)
        if workload is None:
            return Done()
        if not self.expectations.satisfied((namespace, name)):
            raise ReconcileError("pending ungate operations")
        if not is_admitted_to_domains(workload):
            return Done()
        targets = self._targets(workload)
        if targets:
            uids = [pod["metadata"].get("uid", "") for pod, _, _ in targets]
            self.expectations.expect((namespace, name), uids)
            parts = [self._let_go((namespace, name), *each) for each in targets]
            results = yield Together("kueue.ungate", parts)
            failed = next((each for each in results if each is not None), None)
            if failed is not None:
                raise ReconcileError(failed)
        return Done()

    def _let_go(
        self, key: tuple[str, str], pod: Tree, levels: tuple[str, ...], values: tuple[str, ...]
    ) -> Generator[Any, Any, str | None]:
        """Take the gate off a pod and select its domain; the text of an error, None on success."""
        spec = pod["spec"]
        gates = [each for each in spec["schedulingGates"] if each["name"] != TOPOLOGY_GATE]
        selector = {**(spec.get("nodeSelector") or {}), **dict(zip(levels, values, strict=True))}
        changed = {**spec, "schedulingGates": gates, "nodeSelector": selector}
        if not gates:
            del changed["schedulingGates"]
        try:
            yield MergePatch("Pod", pod, {**pod, "spec": changed})
        except RequestFailed as error:
            self.expectations.observed(key, pod["metadata"].get("uid", ""))
            return str(error)
        return None

    def _targets(self, workload: Tree) -> list[tuple[Tree, tuple[str, ...], tuple[str, ...]]]:
        """The gated pods with levels and values of their domains."""
        pods = [pod for pod in pods_of(self.reader, workload) if not is_over(pod)]
        failed = [each["name"] for each in workload["status"].get("unhealthyNodes") or ()]
        ranges = rank_ranges(workload)
        found = []
        for assigned in workload["status"]["admission"]["podSetAssignments"]:
            if assigned.get("topologyAssignment") is None:
                continue
            own = [
                pod
                for pod in pods
                if (pod["metadata"].get("labels") or {}).get(POD_SET) == assigned["name"]
            ]
            assignment = assignment_of(assigned["topologyAssignment"])
            first, last = ranges[assigned["name"]]
            shift = _offset(own)
            request = _topology_request(workload, assigned["name"])
            count = int(assigned.get("count") or 0)
            for pod, values in assign(assignment, own, request, count, first + shift, last + shift):
                if failed and ends_at_nodes(assignment.levels) and values[-1] in failed:
                    continue  # it waits for the replacement of the node
                found.append((pod, assignment.levels, values))
        return found


def _topology_request(workload: Tree, pod_set: str) -> Tree:
    for each in workload["spec"].get("podSets") or ():
        if each.get("name") == pod_set:
            return each.get("topologyRequest") or {}
    return {}


def _offset(pods: Sequence[Tree]) -> int:
    """The offset of the pods' indexes, the same for all of a pod set."""
    text = annotations_of(pods[0]).get(OFFSET) if pods else None
    if text is None:
        return 0
    try:
        return int(text)
    except ValueError:
        raise ReconcileError("failed to parse offset annotation") from None


def rank_ranges(workload: Tree) -> dict[str, tuple[int, int]]:
    """By pod set the first index of its pods and the bound of the indexes: workers come after their leader."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for at, assigned in enumerate(workload["status"]["admission"]["podSetAssignments"]):
        name = assigned["name"]
        group = _topology_request(workload, name).get("podSetGroupName")
        count = int(assigned.get("count") or 0)
        groups.setdefault(str(at) if group is None else group, []).append((name, count))
    found: dict[str, tuple[int, int]] = {}
    for members in groups.values():
        if len(members) == 1:
            found[members[0][0]] = 0, members[0][1]
            continue
        first, second = members[0], members[1]
        small, large = (second, first) if first[1] > second[1] else (first, second)
        found[small[0]] = 0, small[1]
        found[large[0]] = small[1], small[1] + large[1]
    return found


def assign(
    assignment: Assignment, pods: Sequence[Tree], request: Tree, count: int, offset: int, bound: int
) -> list[Target]:
    """The domains of gated pods.

    Args:
        assignment: Of the pod set.
        pods: All its pods that are not over.
        request: Its topology request; names the labels with the pods' indexes.
        count: The pods that were admitted.
        offset: The first index of the pods.
        bound: Indexes lie below.
    """
    domains = [each.values for each in assignment.domains for _ in range(each.count)]
    ranks = ranks_of(pods, request, count, offset, bound)
    if ranks is not None and _agrees(assignment, ranks, domains):
        return [(pod, domains[rank]) for rank, pod in ranks.items() if waits_for_domain(pod)]
    return _in_order(assignment, pods)


def _agrees(
    assignment: Assignment, ranks: dict[int, Tree], domains: Sequence[tuple[str, ...]]
) -> bool:
    """Return whether every rank has a domain, and every pod that was let go is in it."""
    return all(
        rank < len(domains)
        and (waits_for_domain(pod) or _domain_of(pod, assignment.levels) == domains[rank])
        for rank, pod in ranks.items()
    )


def _domain_of(pod: Tree, levels: tuple[str, ...]) -> tuple[str, ...]:
    selector = pod["spec"].get("nodeSelector") or {}
    return tuple(selector.get(level, "") for level in levels)


def _in_order(assignment: Assignment, pods: Sequence[Tree]) -> list[Target]:
    """Fill the domains one after the other, those that were let go counted."""
    gone = [_domain_of(pod, assignment.levels) for pod in pods if not waits_for_domain(pod)]
    waiting = iter([pod for pod in pods if waits_for_domain(pod)])
    found: list[Target] = []
    for domain in assignment.domains:
        for _ in range(max(domain.count - gone.count(domain.values), 0)):
            pod = next(waiting, None)
            if pod is None:
                return found
            found.append((pod, domain.values))
    return found


def ranks_of(
    pods: Sequence[Tree], request: Tree, count: int, offset: int, bound: int
) -> dict[int, Tree] | None:
    """The pods by rank, None if ranks cannot be told of all of them."""
    label = request.get("podIndexLabel")
    if label is None:
        return None
    group_label, groups = request.get("subGroupIndexLabel"), int(request.get("subGroupCount") or 0)
    if group_label is not None and groups <= 0:
        return None
    size = count // groups if group_label is not None else count
    found: dict[int, Tree] = {}
    for pod in pods:
        index = _index(pod, label, bound)
        rank = None if index is None else index - offset
        if group_label is not None and index is not None and rank is not None:
            group = _index(pod, group_label, groups)
            rank = None if group is None or index >= size else rank + group * size
        if rank is None or not 0 <= rank < count or rank in found:
            return None
        found[rank] = pod
    return found


def _index(pod: Tree, label: str, bound: int) -> int | None:
    text = (pod["metadata"].get("labels") or {}).get(label)
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if int(text) < bound else None
