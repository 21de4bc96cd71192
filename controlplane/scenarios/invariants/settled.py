"""Invariants of a world at rest: what controllers keep up to date is what the objects that it follows from say.

Each is computed from the stored objects alone, by the field's documented meaning, so it does not depend on another run
of the same code, as convergence does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.labels import from_label_selector
from controlplane.api.tree import is_ready
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import ENDED, PODS, is_active, pods_by_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "budgets_count_their_pods",
    "no_pod_stays_on_a_node_that_evicts_it",
    "slices_have_the_pods_of_their_service",
    "statuses_count_their_pods",
]

NODES = "/registry/minions/"
REPLICAS = {
    "ReplicaSet": "/registry/replicasets/",
    "StatefulSet": "/registry/statefulsets/",
    "ReplicationController": "/registry/controllers/",
}


def _living(run: Run, prefix: str) -> Iterator[Object[Any]]:
    return (obj for obj in run.objects(prefix) if not obj.metadata.get("deletionTimestamp"))


def _at_rest(name: str, wrong: Callable[[Run], Iterator[str]]) -> Invariant:
    return Invariant(name, lambda run: next(wrong(run), None))


def statuses_count_their_pods() -> Invariant:
    """At rest the status of a ReplicaSet, StatefulSet or ReplicationController has the numbers of its pods."""

    def wrong(run: Run) -> Iterator[str]:
        for kind, prefix in REPLICAS.items():
            pods = pods_by_owner(run, kind)
            for owner in _living(run, prefix):
                own = [pod for pod in pods.get(owner.uid, ()) if is_active(pod)]
                status = owner.tree.get("status") or {}
                for field, count in (
                    ("replicas", len(own)),
                    ("readyReplicas", sum(is_ready(pod.tree) for pod in own)),
                ):
                    if status.get(field, 0) != count:
                        told = status.get(field, 0)
                        yield f"{kind} {owner.key}: status.{field} is {told}, and there are {count}"

    return _at_rest("a status counts the pods that are there", wrong)


def slices_have_the_pods_of_their_service() -> Invariant:
    """At rest the EndpointSlices of a Service have each of its pods with an address once, and no other."""

    def wrong(run: Run) -> Iterator[str]:
        shown: dict[tuple[str, str], list[str]] = {}
        for found in _living(run, "/registry/endpointslices/"):
            labels = found.metadata.get("labels") or {}
            if labels.get("endpointslice.kubernetes.io/managed-by") != MANAGER:
                continue
            place = found.namespace, labels.get("kubernetes.io/service-name", "")
            for each in found.tree.get("endpoints") or ():
                shown.setdefault(place, []).append((each.get("targetRef") or {}).get("uid", ""))
        for service in _living(run, "/registry/services/specs/"):
            selector = service.tree["spec"].get("selector")
            if not selector:
                continue
            wanted = sorted(
                pod.uid
                for pod in run.objects(PODS)
                if pod.namespace == service.namespace
                and selector.items() <= (pod.metadata.get("labels") or {}).items()
                and _has_address(pod)
            )
            there = sorted(shown.get((service.namespace, service.name), ()))
            if there != wanted:
                yield f"the slices of Service {service.key} have pods {there}, and not {wanted}"

    return _at_rest("slices have the pods of their service", wrong)


MANAGER = "endpointslice-controller.k8s.io"


def _has_address(pod: Object[Any]) -> bool:
    status = pod.tree.get("status") or {}
    return bool(status.get("podIPs")) and status.get("phase") not in ENDED


def budgets_count_their_pods() -> Invariant:
    """At rest a PodDisruptionBudget has the number of its ready pods, and waits for no disruption."""

    def wrong(run: Run) -> Iterator[str]:
        for budget in _living(run, "/registry/poddisruptionbudgets/"):
            status = budget.tree.get("status") or {}
            if any(
                each["type"] == "DisruptionAllowed" and each.get("reason") == "SyncFailed"
                for each in status.get("conditions") or ()
            ):
                continue  # it counts nothing, and says so
            matcher = from_label_selector(budget.view.spec.selector)
            healthy = sum(
                pod.namespace == budget.namespace
                and not pod.metadata.get("deletionTimestamp")
                and is_ready(pod.tree)
                and matcher.matches(pod.view.labels)
                for pod in run.objects(PODS)
            )
            if status.get("currentHealthy", 0) != healthy:
                told = status.get("currentHealthy", 0)
                yield f"budget {budget.key} counts {told} healthy pods, and there are {healthy}"
            if status.get("disruptedPods"):
                names = ", ".join(sorted(status["disruptedPods"]))
                yield f"budget {budget.key} still waits for the disruption of {names}"

    return _at_rest("a budget counts the pods that are there", wrong)


def no_pod_stays_on_a_node_that_evicts_it() -> Invariant:
    """At rest no pod runs on a node with a taint NoExecute that it does not tolerate, or tolerates for a time only."""

    def wrong(run: Run) -> Iterator[str]:
        from controlplane.controllers.lifecycle.taint_eviction import matching, no_execute

        nodes: dict[str, Any] = {node.name: node.view for node in run.objects(NODES)}
        for pod in run.objects(PODS):
            node = nodes.get(pod.tree["spec"].get("nodeName") or "")
            if node is None or not is_active(pod):
                continue
            view: Any = pod.view
            used = matching(no_execute(node.spec.taints), view.spec.tolerations)
            if used is None or any(each.toleration_seconds is not None for each in used):
                yield f"{pod.key} is on {node.name}, whose taint evicts it"

    return _at_rest("no pod stays where a taint evicts it", wrong)
