"""Kubernetes pull request 141568: a pod's successor on a healthy node is evicted for the taint of the old one's node.

The taint eviction controller decides on a pod and waits for as long as the pod tolerates the taint. What it keeps is
the pod's name. If the pod is deleted and created anew under its name meanwhile, on a node without a taint, the
controller looks up the name when it hears of the deletion, finds a pod, and leaves the timer. When that fires it reads
whatever has the name, marks it with DisruptionTarget and deletes it by name. Pod garbage collection has the same shape:
it force-deletes by name what its cache knows as a failed pod of a lost node.

Open upstream; the pull request adds uids to taint eviction, and the repair here to pod garbage collection, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import pod

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

TAINTED, HEALTHY = "node-1", "node-2"
TOLERATES_S = 5
EVICTED = "DeletionByTaintManager"


def build(_setting: Setting) -> ClusterConfig:
    """An API server and one controller; pods are bound by their creator, and no kubelet runs them."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=(),
        kubelets=False,
        scheduler_watches=(),
        enabled_controllers=("taint-eviction-controller",),
        heartbeats=False,
    )


async def recreated(user: User) -> None:
    """A pod tolerates the taint of its node for a while, and is created anew on another node about then."""
    from controlplane.cluster import node_tree

    tolerations = [
        {
            "key": "fault",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATES_S,
        }
    ]
    for name in (TAINTED, HEALTHY):
        await user.create(node_tree(name))
    await user.create(pod("web", nodeName=TAINTED, tolerations=tolerations))
    taint = {"key": "fault", "effect": "NoExecute"}
    await user.patch("Node", TAINTED, {"spec": {"taints": [taint]}})
    await user.sleep(1 + user.choose(TOLERATES_S, "when"))
    await user.attempt(user.delete("Pod", "web", grace_period_seconds=0))
    if not user.choose(2, "how soon"):
        await user.sleep(1)
    await user.attempt(user.create(pod("web", nodeName=HEALTHY)))
    await user.sleep(4 * TOLERATES_S)


def spared(run: Run) -> str | None:
    """Return which pod of the healthy node was evicted, if one was."""
    for each in run.objects("/registry/pods/"):
        conditions = (each.tree.get("status") or {}).get("conditions") or ()
        evicted = any(condition.get("reason") == EVICTED for condition in conditions)
        if evicted and each.tree["spec"].get("nodeName") == HEALTHY:
            return (
                f"pod {each.name} on {HEALTHY}, which has no taint, is a target of taint eviction"
            )
    return None


SCENARIO = Scenario(
    "race 141568",
    workload=recreated,
    build=build,
    invariants=(Invariant("taints evict only pods of their node", spared, ("apiserver",)),),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    releases="open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="3 of 3 runs of taint eviction, 3 of 3 of pod garbage collection",
    invariant="no pod of a node without a taint is evicted for a taint",
    scenario=SCENARIO,
)
