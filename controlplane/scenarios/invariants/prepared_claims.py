"""Prepared claims: what kubelets and DRA drivers hold is what pods use.

Ready for a scenario with claims:

    from controlplane.scenarios.invariants.prepared_claims import PREPARED
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api import resource_claims as rules
from controlplane.api.resource_claims import ClaimRuleError
from controlplane.kubelet.cm.dra.driver import driver_actor
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.pod_lives import ENDED_BY_OTHERS, FORCED, is_to_go
from controlplane.scenarios.invariants.views import PODS, note, stored_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "PREPARED",
    "devices_are_held_for_pods",
    "objects_outlast_their_claims",
    "what_runs_has_its_claims",
]


def _claims_of(pod: Object[Any] | Pod) -> Iterator[str]:
    """Iterate over the keys of a pod's claims."""
    extended = rules.extended_claim_name(pod.tree)
    if extended is not None:
        yield f"{pod.namespace}/{extended}"
    for entry in rules.claim_entries(pod.tree):
        try:
            name = rules.name_of(pod.tree, entry).name
        except ClaimRuleError:
            continue
        if name is not None:
            yield f"{pod.namespace}/{name}"


def devices_are_held_for_pods() -> Invariant:
    """At rest, a kubelet holds the claims of the pods that run on its node, and its drivers hold the same.

    A node whose kubelet does not run is left out.
    """

    def check(run: Run) -> str | None:
        drivers = run.cluster.node_drivers
        if drivers is None:
            return None
        for node, host in run.cluster.machines.items():
            if host.claims is None:
                continue
            wanted = {
                key
                for pod in run.objects(PODS)
                if pod.tree["spec"].get("nodeName") == node
                and (pod.tree.get("status") or {}).get("phase") == "Running"
                for key in _claims_of(pod)
            }
            held = host.claims.cache.claims
            for key in sorted(wanted.difference(held)):
                return f"a pod on {node} uses claim {key}, which its kubelet does not hold"
            for key in held:
                if key not in wanted:
                    return f"the kubelet of {node} holds claim {key}, which no pod uses"
            for actor in drivers.of(node).values():
                for ref in drivers.probes[actor].prepared.values():
                    if f"{ref.namespace}/{ref.name}" not in held:
                        return f"driver {actor} holds claim {ref}, which the kubelet does not"
        return None

    return Invariant("kubelets and drivers hold the claims of pods", check)


def what_runs_has_its_claims(driver: str, *nodes: str) -> Invariant:
    """A container runs only while its node's drivers hold the claims of its pod prepared; `driver` is one of them.

    Upstream: PrepareDynamicResources comes before the sandbox (kuberuntime_manager.go), UnprepareDynamicResources after
    the last container has stopped (SyncTerminatingPod of pkg/kubelet/kubelet.go).
    """

    def check(run: Run) -> str | None:
        drivers = run.cluster.node_drivers
        if drivers is None:
            return None
        for node in nodes:
            host = run.cluster.machines[node]
            if host.process is None:
                continue
            held: set[str] | None = None
            for uid, sandbox in host.sandboxes.items():
                worker = host.process.workers.get(uid)
                if worker is None or not sandbox.running():
                    continue
                for key in _claims_of(worker.pod):
                    if held is None:
                        held = _prepared_on(run, node)
                    if key not in held:
                        return f"{node}: {worker.pod.key} runs, and claim {key} is not prepared"
        return None

    actors = [driver_actor(driver, node) for node in nodes]
    return Invariant("what runs has its claims", check, (*nodes, *actors))


def _prepared_on(run: Run, node: str) -> set[str]:
    drivers = run.cluster.node_drivers
    assert drivers is not None
    return {
        f"{ref.namespace}/{ref.name}"
        for actor in drivers.of(node).values()
        for ref in drivers.probes[actor].prepared.values()
    }


def objects_outlast_their_claims(after: str, *nodes: str) -> Invariant:
    """The object of a pod that is to go stays while its kubelet holds claims for it, unless it was deleted by force.

    Upstream: PodCouldHaveRunningContainers of pkg/kubelet/kubelet.go, which keeps the end of the pod back. Not so where
    another client wrote the end: a kubelet that starts anew takes the pod for terminated, and lets it go.
    """

    def check(run: Run) -> str | None:
        going = note(run, "pods with claims that are to go")
        stored = {pod.uid for pod in run.objects(PODS)}
        for uid in [uid for uid in going if uid not in stored]:
            name, host = going.pop(uid)
            if any(uid in run.notes.get(each, ()) for each in (FORCED, ENDED_BY_OTHERS)):
                continue
            if host.claims is None:
                continue
            for key, info in host.claims.cache.claims.items():
                if uid in info.pods:
                    return f"{name} is gone, and claim {key} is prepared for it"
        for pod in run.objects(PODS):
            node = pod.tree["spec"].get("nodeName")
            if node in nodes and is_to_go(pod):
                going[pod.uid] = (pod.key, run.cluster.machines[node])
        return None

    return Invariant(
        "an object outlasts the claims of its pod", check, (after,), looks_at=stored_pods
    )


PREPARED: Final = (devices_are_held_for_pods(),)
"""Invariants of a cluster with DRA drivers."""
