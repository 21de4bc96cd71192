"""Prepared claims: what kubelets and DRA drivers hold is what pods use.

Ready for a scenario with claims:

    from controlplane.scenarios.invariants.prepared_claims import PREPARED
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api import resource_claims as rules
from controlplane.api.resource_claims import ClaimRuleError
from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["PREPARED", "devices_are_held_for_pods"]

PODS: Final = "/registry/pods/"


def _claims_of(pod: Object[Any]) -> Iterator[str]:
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


PREPARED: Final = (devices_are_held_for_pods(),)
"""Invariants of a cluster with DRA drivers."""
