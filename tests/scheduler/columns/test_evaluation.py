import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.api.claims import PersistentVolumeClaim
from controlplane.api.core import Namespace, Service
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.storage import PersistentVolume, StorageClass
from controlplane.decisions import at_once
from controlplane.gates import FixGates
from controlplane.scheduler import eventhandlers as handlers
from controlplane.scheduler.config.load import load
from controlplane.scheduler.config.model import SchedulerConfig
from controlplane.scheduler.cycle import binding, failure
from controlplane.scheduler.cycle.scheduling import schedule
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.interface import FilterPlugin, ScorePlugin
from controlplane.scheduler.plugins.registry import Entry, in_tree_registry
from controlplane.scheduler.scheduler import Scheduler
from controlplane.scheduler.state.listers import Listers, MemoryLister
from tests.scheduler.make import T0, node_tree, pod_tree
from tests.scheduler.reference.search import SearchByNode, by_node_registry

ZONES = ("", "a", "b", "c")
APPS = ("web", "db")
TAINTS = (
    [],
    [{"key": "k", "effect": "NoSchedule"}],
    [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}],
    [{"key": "l", "effect": "PreferNoSchedule"}, {"key": "k", "effect": "PreferNoSchedule"}],
)
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

nodes = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("500m", "1", "2", "7500m")),
        "memory": st.sampled_from(("1Gi", "3000Mi", "0", "1Gi", "50Pi")),
        "pods": st.sampled_from(("1", "3", "110")),
        "zone": st.sampled_from(ZONES),
        "labels": st.sampled_from(({}, {"disk": "ssd"}, {"disk": "hdd", "gen": "2"})),
        "spec": st.builds(
            lambda taints, cordoned: {"taints": taints, "unschedulable": cordoned},
            st.sampled_from(TAINTS),
            st.sampled_from((False, False, False, True)),
        ),
        "allocatable": st.sampled_from(({}, {"example.com/gpu": "2"})),
    }
)


def selector(app):
    return {"matchLabels": {"app": app}}


def term(app, key):
    return {"labelSelector": selector(app), "topologyKey": key}


required = st.builds(
    lambda app, key: [term(app, key)], st.sampled_from(APPS), st.sampled_from((HOST, ZONE))
)
preferred = st.builds(
    lambda app, key, weight: [{"weight": weight, "podAffinityTerm": term(app, key)}],
    st.sampled_from(APPS),
    st.sampled_from((HOST, ZONE)),
    st.sampled_from((1, 7, 100)),
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
affinity = st.one_of(
    st.none(),
    st.none(),
    st.builds(lambda terms: {"podAntiAffinity": {REQUIRED: terms}}, required),
    st.builds(lambda terms: {"podAffinity": {REQUIRED: terms}}, required),
    st.builds(lambda terms: {"podAffinity": {PREFERRED: terms}}, preferred),
    st.builds(lambda terms: {"podAntiAffinity": {PREFERRED: terms}}, preferred),
    st.sampled_from(
        (
            {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
                        ]
                    }
                }
            },
            {
                "nodeAffinity": {
                    PREFERRED: [
                        {
                            "weight": 10,
                            "preference": {
                                "matchExpressions": [
                                    {"key": "disk", "operator": "In", "values": ["ssd"]}
                                ]
                            },
                        }
                    ]
                }
            },
        )
    ),
)
spread = st.one_of(
    st.just(()),
    st.builds(
        lambda app, key, action, skew, taints: (
            {
                "labelSelector": selector(app),
                "topologyKey": key,
                "whenUnsatisfiable": action,
                "maxSkew": skew,
                "nodeTaintsPolicy": taints,
            },
        ),
        st.sampled_from(APPS),
        st.sampled_from((HOST, ZONE)),
        st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
        st.sampled_from((1, 2)),
        st.sampled_from(("Honor", "Ignore")),
    ),
)
requests = st.sampled_from(
    (
        {},
        {"cpu": "100m"},
        {"cpu": "700m", "memory": "500Mi"},
        {"memory": "1"},
        {"cpu": "0", "example.com/gpu": "1"},
        {"cpu": "3", "memory": "2Gi", "ephemeral-storage": "1Gi"},
    )
)
ports = st.sampled_from(((), (), ({"hostPort": 80, "containerPort": 80},)))
volumes = st.sampled_from(((), (), (), ("bound",), ("zoned",), ("late",), ("bound", "late")))
pods = st.builds(
    lambda app, aff, spr, req, tol, port, priority, claims, nominated: {
        "status": {"nominatedNodeName": nominated},
        "volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims],
        "labels": {"app": app},
        "priority": priority,
        "affinity": aff,
        "topologySpreadConstraints": list(spr),
        "containers": [
            {"name": "c", "image": "i", "ports": list(port), "resources": {"requests": req}}
        ],
        "tolerations": tol,
    },
    st.sampled_from(APPS),
    affinity,
    spread,
    requests,
    st.sampled_from(([], [{"key": "k", "operator": "Exists"}])),
    ports,
    st.sampled_from((0, 0, 10)),
    volumes,
    st.sampled_from(("", "", "", "n0", "n1", "gone")),
)
clusters = st.tuples(
    st.lists(nodes, min_size=2, max_size=14), st.lists(pods, min_size=1, max_size=16)
)


def claim(name, **spec):
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    return PersistentVolumeClaim.from_tree(
        {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, **spec},
        }
    )


def volume(name, labels=None, **spec):
    return PersistentVolume.from_tree(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"capacity": {"storage": "2Gi"}, **spec},
            "status": {"phase": "Available"},
        }
    )


def storage():
    """A claim bound to a volume of ssd nodes, one bound in zone a, one that waits for its pod."""
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {"required": {"nodeSelectorTerms": [ssd]}}
    late = {
        "metadata": {"name": "late"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return {
        "persistent_volume_claims": MemoryLister(
            [
                claim("bound", volumeName="v1"),
                claim("zoned", volumeName="v2"),
                claim("late", storageClassName="late"),
            ]
        ),
        "persistent_volumes": MemoryLister(
            [
                volume("v1", nodeAffinity=affinity),
                volume("v2", {ZONE: "a"}),
                volume("v3", nodeAffinity=affinity, storageClassName="late"),
            ]
        ),
        "storage_classes": MemoryLister([StorageClass.from_tree(late)]),
    }


class Odd(FilterPlugin, ScorePlugin):
    """A user's plugin: it refuses some nodes, and fails on some, node by node."""

    name = "Odd"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if (len(node.pods), node.name) == (2, "n2"):
            return fwk.error("boom")
        return fwk.unschedulable("odd") if len(node.pods) % 2 and node.name == "n1" else None

    def score(self, state, pod, node):
        return len(node.pods) * 7 % 101


def run(cluster, *, fast, percentage=0, service=False, churn=True, shared=False, odd=False):
    node_specs, pod_specs = cluster
    specs = {}
    store = MemoryLister()
    services = MemoryLister()
    if service:
        tree = {
            "metadata": {"name": "s", "namespace": "default"},
            "spec": {"selector": {"app": "web"}},
        }
        services.put(Service.from_tree(tree))
    namespaces = MemoryLister([Namespace.from_tree({"metadata": {"name": "default"}})])
    registry = None if fast else by_node_registry()
    config = SchedulerConfig(percentage_of_nodes_to_score=percentage)
    if odd:
        registry = {**(registry or in_tree_registry()), "Odd": Entry(Odd, Odd)}
        config = load(ODD, registry)
    scheduler = Scheduler(
        Listers(pods=store, services=services, namespaces=namespaces, **storage()),
        config=config,
        registry=registry,
    )
    if not fast:
        scheduler.search = SearchByNode(scheduler.handle.columns, percentage)
    trees = [node_tree(f"n{i}", **spec) for i, spec in enumerate(node_specs)]
    for tree in trees:
        at_once(handlers.add_node(scheduler, Node.from_tree(tree), T0))
    seen = []
    for i, spec in enumerate(pod_specs):
        spec = {key: value for key, value in spec.items() if value is not None}
        tree = pod_tree(f"p{i}", cpu="", **spec)
        if shared:
            # As the API server hands them out: pods with equal specs have the same one.
            tree["spec"] = specs.setdefault(repr(tree["spec"]), tree["spec"])
        pod = Pod.from_tree(tree)
        store.put(pod)
        at_once(handlers.add_pod(scheduler, pod, T0 + i))
        if churn and i == len(pod_specs) // 2:
            changed = dict(trees[0], spec={"unschedulable": True})
            old = scheduler.cache.nodes["n0"].node
            at_once(handlers.update_node(scheduler, old, Node.from_tree(changed), T0 + i))
        info = scheduler.queue.pop()
        if info is None:
            continue
        attempt = scheduler.begin(info, T0 + i)
        scheduler.update_snapshot(attempt)
        at_once(schedule(scheduler.search, attempt, keep_totals=True))
        start = scheduler.search.next_start_node_index
        if attempt.failure is not None:
            fit = attempt.failure.fit_error
            statuses = fit.diagnosis.node_to_status if fit else None
            refused = sorted(map(repr, statuses.refusals(2))) if fit else []
            named = {f"n{k}": statuses.get(f"n{k}") for k in range(len(trees))} if fit else {}
            plugins = list(fit.diagnosis.unschedulable_plugins) if fit else []
            seen.append((attempt.failure.message, plugins, named, refused, start))
            failure.handle(scheduler.queue, attempt, pod, FixGates(), T0 + i)
            continue
        seen.append((attempt.result, attempt.totals, attempt.scores, start))
        at_once(binding.assume(scheduler.cache, scheduler.queue, attempt))
        scheduler.queue.done(info.uid)
    return seen


ODD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Odd"}]}}}],
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters, st.booleans(), st.booleans())
def test_columns_decide_what_node_by_node_decides(cluster, service, odd):
    fast = run(cluster, fast=True, service=service, odd=odd)
    assert fast == run(cluster, fast=False, service=service, odd=odd)
    assert fast == run(cluster, fast=True, service=service, odd=odd, shared=True)


def test_the_search_starts_where_the_last_one_ended_on_both_paths():
    spec = {
        "cpu": "2",
        "memory": "4Gi",
        "pods": "110",
        "zone": "a",
        "labels": {},
        "spec": {},
        "allocatable": {},
    }
    blocked = spec | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    node_specs = [blocked if i % 3 == 0 else spec for i in range(210)]
    pod_specs = [{"labels": {"app": "web"}} for _ in range(12)]
    cluster = (node_specs, pod_specs)
    fast = run(cluster, fast=True, percentage=5)
    assert fast == run(cluster, fast=False, percentage=5)
    assert len({start for *_, start in fast}) > 3
    assert all(result.feasible_nodes == 100 for result, *_ in fast)
