"""Kubernetes issue 126587 (CVE-2024-7598): pods outlive the network policies of their namespace.

A namespace is deleted kind by kind. Pods take their time to stop, and the deletion did not wait for them before the
next kind was deleted, NetworkPolicies among them: until the pods stopped, clients that the policy had blocked could
reach them. (Upstream the order of kinds was that of a map, so policies could also go first.)

Now pods go first, and other kinds only once no pod is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

SHOP = "shop"
POLICIES = "/registry/networkpolicies/"
PODS = "/registry/pods/"


def build(setting: Setting) -> ClusterConfig:
    """A cluster with the namespace controller."""
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.selection import STANDARD

    return ClusterConfig(
        nodes=setting.nodes(), heartbeats=False, enabled_controllers=(*STANDARD, "namespace")
    )


async def removed(user: User) -> None:
    """A namespace with a policy and a pod is deleted."""
    await user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    metadata = {"name": "web", "namespace": SHOP}
    await user.create(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
        }
    )
    container = {"name": "main", "image": "app:1"}
    grace = (0, 1, 30)[user.choose(3, "grace")]
    spec = {"containers": [container], "terminationGracePeriodSeconds": grace}
    await user.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await user.wait_until(
        lambda run: any(each.tree["status"].get("phase") == "Running" for each in run.objects(PODS))
    )
    await user.delete("Namespace", SHOP)
    await user.sleep(120)


def policy_outlives(run: Run) -> str | None:
    """While a pod runs in a namespace that goes, its policy is there."""
    going = any(
        each.name == SHOP and each.metadata.get("deletionTimestamp")
        for each in run.objects("/registry/namespaces/")
    )
    if not going or run.objects(POLICIES):
        return None
    for pod in run.objects(PODS):
        if pod.namespace == SHOP:
            return f"{pod.key} is there, and the policy that protects it is gone"
    return None


SCENARIO = Scenario(
    "race 126587",
    workload=removed,
    build=build,
    invariants=(
        Invariant("a policy outlives the pods that it protects", policy_outlives, ("apiserver",)),
    ),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.32; fix: 1.33",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="as long as a pod is there in a namespace that goes, the NetworkPolicy is too",
    scenario=SCENARIO,
    schedules=60,
)
