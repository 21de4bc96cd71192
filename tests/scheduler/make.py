"""Small builders for scheduler tests."""

from __future__ import annotations

from controlplane.api.core import Namespace
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.scheduler.cycle import binding
from controlplane.scheduler.scheduler import Scheduler
from controlplane.scheduler.state.listers import Listers, MemoryLister

SECOND = 1_000_000_000
T0 = 1_700_000_000 * SECOND


def pod_tree(name, *, uid=None, cpu="100m", namespace="default", labels=None, node="", **spec):
    spec.setdefault(
        "containers", [{"name": "c", "resources": {"requests": {"cpu": cpu} if cpu else {}}}]
    )
    spec.setdefault("schedulerName", "default-scheduler")
    if node:
        spec["nodeName"] = node
    status = spec.pop("status", None)
    metadata = {"name": name, "namespace": namespace, "uid": uid or name}
    for key in ("deletionTimestamp", "resourceVersion", "ownerReferences"):
        if key in spec:
            metadata[key] = spec.pop(key)
    if labels:
        metadata["labels"] = labels
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return tree | ({"status": status} if status else {})


def pod(name, **kwargs):
    return Pod.from_tree(pod_tree(name, **kwargs))


def node_tree(name, *, cpu="4", memory="8Gi", pods="110", zone="", labels=None, **rest):
    labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if zone:
        labels["topology.kubernetes.io/zone"] = zone
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods} | rest.pop("allocatable", {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": rest.pop("spec", {}),
        "status": {"allocatable": allocatable, **rest},
    }


def node(name, **kwargs):
    return Node.from_tree(node_tree(name, **kwargs))


class World:
    """A scheduler with its listers and a clock; objects go in as the informers would put them."""

    def __init__(self, **options):
        self.pods = MemoryLister()
        self.namespaces = MemoryLister([Namespace.from_tree({"metadata": {"name": "default"}})])
        self.log = []
        self.scheduler = Scheduler(
            Listers(pods=self.pods, namespaces=self.namespaces),
            log=self.log.append,
            **options,
        )
        self.now = T0

    @property
    def queue(self):
        return self.scheduler.queue

    @property
    def cache(self):
        return self.scheduler.cache

    def attempt(self):
        """Pop, look at the cluster, search: the attempt."""
        info = self.queue.pop()
        attempt = self.scheduler.begin(info, self.now)
        self.scheduler.update_snapshot(attempt)
        at_once(self.scheduler.find_node(attempt))
        return attempt

    def bind(self, attempt):
        """Everything after a successful search, up to the write."""
        at_once(binding.assume(self.cache, self.queue, attempt))
        at_once(binding.reserve_and_permit(self.cache, attempt))
        binding.pre_bind_pre_flight(attempt)
        binding.permit_wait_over(self.queue, attempt, None)
        binding.pre_bind(attempt)
        return binding.bind(attempt)
