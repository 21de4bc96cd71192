"""The configuration that is checked: workloads, autoscalers, budgets and nodes, as values read from manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.api.decoding import decode
from controlplane.api.labels import from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.quantity import QuantityError, parse
from controlplane.api.validation import parse_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.tree import Tree

__all__ = ["ZONE", "Budget", "Scaler", "Subject", "Workload", "subject_of"]

ZONE: Final = "topology.kubernetes.io/zone"
ZONE_LABELS: Final = (ZONE, "failure-domain.beta.kubernetes.io/zone", "zone")
"""Labels that name a node's zone, the standard one first."""
SPOT_LABELS: Final = {
    "karpenter.sh/capacity-type": ("spot",),
    "eks.amazonaws.com/capacityType": ("SPOT",),
    "cloud.google.com/gke-spot": ("true",),
    "cloud.google.com/gke-preemptible": ("true",),
    "kubernetes.azure.com/scalesetpriority": ("spot",),
    "node.kubernetes.io/lifecycle": ("spot",),
    "lifecycle": ("spot", "Ec2Spot"),
}
"""Labels by which clouds and their users mark a node that can be taken away at any time."""
KEEPERS: Final = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
"""Kinds that keep a number of replicas."""
STABILIZATION_S: Final = 300
"""Seconds for which a scale-down waits, unless the autoscaler says otherwise."""


@frozen
class Workload:
    """A workload that keeps a number of pods (`replicas` None: the manifest does not say, or a DaemonSet)."""

    kind: str
    namespace: str
    name: str
    replicas: int | None
    tree: Tree = field(repr=False)

    @property
    def key(self) -> str:
        """Kind/namespace/name."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def template(self) -> Tree:
        """The template of its pods."""
        return (self.tree.get("spec") or {}).get("template") or {}

    @property
    def pod_spec(self) -> Tree:
        """The spec of its pods."""
        return self.template.get("spec") or {}

    @property
    def recreates(self) -> bool:
        """Return whether an update ends all pods before it makes new ones, as asked for."""
        strategy = (self.tree.get("spec") or {}).get("strategy") or {}
        return strategy.get("type") == "Recreate"

    def asks_for_zones(self) -> bool:
        """Return whether the pods ask to be spread over zones, strictly or not."""
        spec = self.pod_spec
        keys = [each.get("topologyKey") for each in spec.get("topologySpreadConstraints") or ()]
        anti = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
        keys += [
            each.get("topologyKey")
            for each in anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        ]
        keys += [
            (each.get("podAffinityTerm") or {}).get("topologyKey")
            for each in anti.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
        return any(key in ZONE_LABELS for key in keys)


@frozen
class Scaler:
    """A HorizontalPodAutoscaler. `cpu` is the target in percent of the CPU requests, None for another metric."""

    namespace: str
    name: str
    target: str
    least: int
    most: int
    cpu: int | None
    waits_s: int
    """Seconds for which a change can wait."""

    @property
    def key(self) -> str:
        """Namespace/name."""
        return f"{self.namespace}/{self.name}"


@frozen
class Budget:
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    spec: Tree = field(repr=False)

    @property
    def key(self) -> str:
        """Namespace/name."""
        return f"{self.namespace}/{self.name}"

    def covers(self, workload: Workload) -> bool:
        """Return whether it selects the pods of a workload."""
        labels = (workload.template.get("metadata") or {}).get("labels") or {}
        view = decode(LabelSelector, self.spec.get("selector") or {})
        return workload.namespace == self.namespace and from_label_selector(view).matches(labels)

    def needed(self, wanted: int) -> int:
        """The number of healthy pods that it asks for of so many; percentages are rounded up."""
        least = self.spec.get("minAvailable")
        if least is not None:
            return _share(least, wanted)
        most = self.spec.get("maxUnavailable")
        return max(wanted - _share(most, wanted), 0) if most is not None else 0


def _share(value: int | str, whole: int) -> int:
    """A number, or a percentage of a whole, rounded up."""
    if isinstance(value, int):
        return value
    percent = parse_int64(value.rstrip("%")) or 0
    return -(-percent * whole // 100)


@frozen
class Subject:
    """The configuration that is checked."""

    workloads: tuple[Workload, ...]
    scalers: tuple[Scaler, ...]
    budgets: tuple[Budget, ...]
    nodes: tuple[Tree, ...] = field(repr=False)
    trees: tuple[Tree, ...] = field(default=(), repr=False)
    """All manifests, in the order of the files."""

    def zone_of(self, node: str) -> str:
        """The zone of a node, "" without one."""
        return next((zone_of(tree) for tree in self.nodes if name_of(tree) == node), "")

    def zones(self) -> tuple[str, ...]:
        """All zones, in the order of the nodes."""
        return tuple(dict.fromkeys(zone for tree in self.nodes if (zone := zone_of(tree))))

    def scaler_of(self, key: str) -> Scaler | None:
        """The autoscaler of a workload, by the workload's key."""
        return next((each for each in self.scalers if each.target == key), None)

    def workload(self, key: str) -> Workload | None:
        """The workload with a key (Kind/namespace/name)."""
        return next((each for each in self.workloads if each.key == key), None)


def name_of(tree: Tree) -> str:
    """metadata.name."""
    return str((tree.get("metadata") or {}).get("name") or "")


def zone_of(node: Tree) -> str:
    """The zone of a node by its labels, "" without one."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    return next((labels[key] for key in ZONE_LABELS if labels.get(key)), "")


def is_spot(node: Tree) -> bool:
    """Return whether a node's labels say that it can be taken away at any time."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    return any(labels.get(key) in values for key, values in SPOT_LABELS.items())


def subject_of(trees: Iterable[Tree], nodes: Sequence[Tree]) -> Subject:
    """Read the configuration from manifests that the API server has accepted, and from the nodes."""
    workloads, scalers, budgets = [], [], []
    trees = tuple(trees)
    for tree in trees:
        kind = tree.get("kind")
        if kind in KEEPERS or kind == "DaemonSet":
            workloads.append(_workload(tree))
        elif kind == "HorizontalPodAutoscaler":
            scalers.append(_scaler(tree))
        elif kind == "PodDisruptionBudget":
            budgets.append(Budget(_namespace(tree), name_of(tree), tree.get("spec") or {}))
    return Subject(tuple(workloads), tuple(scalers), tuple(budgets), tuple(nodes), trees)


def _namespace(tree: Tree) -> str:
    return str((tree.get("metadata") or {}).get("namespace") or "default")


def _workload(tree: Tree) -> Workload:
    spec = tree.get("spec") or {}
    replicas = None if tree["kind"] == "DaemonSet" else spec.get("replicas")
    return Workload(tree["kind"], _namespace(tree), name_of(tree), replicas, tree)


def _scaler(tree: Tree) -> Scaler:
    spec = tree.get("spec") or {}
    namespace = _namespace(tree)
    target = spec.get("scaleTargetRef") or {}
    behavior = spec.get("behavior") or {}
    waits = [
        (behavior.get("scaleDown") or {}).get("stabilizationWindowSeconds", STABILIZATION_S),
        (behavior.get("scaleUp") or {}).get("stabilizationWindowSeconds", 0),
    ]
    return Scaler(
        namespace,
        name_of(tree),
        f"{target.get('kind')}/{namespace}/{target.get('name')}",
        int(spec.get("minReplicas") or 1),
        int(spec.get("maxReplicas") or 1),
        _cpu_target(spec),
        max(waits),
    )


def _cpu_target(spec: Tree) -> int | None:
    """The target for CPU in percent of the requests."""
    if spec.get("targetCPUUtilizationPercentage"):
        return int(spec["targetCPUUtilizationPercentage"])
    for each in spec.get("metrics") or ():
        resource = each.get("resource") or {}
        target = resource.get("target") or {}
        if each.get("type") == "Resource" and resource.get("name") == "cpu":
            return target.get("averageUtilization")
    return None


def cpu_request(pod_spec: Tree) -> int:
    """The CPU requests of a pod's containers in thousandths; a limit stands for a request that is not there."""
    total = 0
    for each in pod_spec.get("containers") or ():
        resources: dict[str, Any] = each.get("resources") or {}
        asked = (resources.get("requests") or {}).get(
            "cpu", (resources.get("limits") or {}).get("cpu")
        )
        if asked is not None:
            try:
                total += parse(str(asked)).milli_value()
            except QuantityError:
                continue
    return total
