"""The cluster autoscaler in a whole cluster, beside an emulated cloud."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors import Context, EventLog
from controlplane.autoscaler.cloud.file import node_groups_of
from controlplane.autoscaler.cloud.messages import CLOUD, Lose
from controlplane.autoscaler.loops.adding import cloud_of
from controlplane.autoscaler.process.controller import autoscaler_of
from controlplane.client.loops.clientset import DEPLOYMENTS, NODES, Client
from controlplane.client.resources import DISRUPTION_BUDGETS
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO
from tests.test_cluster import pods
from tests.test_determinism import deployment

FOLDER = Path(__file__).parents[3] / "examples" / "cluster-autoscaler"
SECOND = 1_000_000_000
FLAGS = {"scale-down-delay-after-add": "30s", "scale-down-unneeded-time": "1m"}
SMALL = {"status": {"capacity": {"cpu": "2", "memory": "8Gi"}}}
LARGE = {"status": {"capacity": {"cpu": "8", "memory": "32Gi"}}}


def executed(name: str, groups: str) -> Execution:
    options = {
        "files": (str(FOLDER / name),),
        "with": ("cluster-autoscaler",),
        "node_groups": str(FOLDER / groups),
    }
    run = Execution(plan_of(SCENARIO, **options))
    run.execute("bare")
    assert summary_of(run).verdict == "quiescent"
    return run


def events(cluster, reason: str) -> list[tuple[str, str]]:
    """The objects of the events with a reason, and the texts."""
    return [
        (tree["involvedObject"]["name"], tree["message"])
        for tree in (obj.tree for obj in cluster.objects("/registry/events/"))
        if tree["reason"] == reason
    ]


def messages(cluster, reason: str) -> list[str]:
    return sorted({text for _, text in events(cluster, reason)})


def nodes(cluster) -> list[str]:
    return sorted(obj.name for obj in cluster.objects("/registry/minions/"))


def status(cluster) -> Any:
    (found,) = [
        obj.tree
        for obj in cluster.objects("/registry/configmaps/")
        if obj.name == "cluster-autoscaler-status"
    ]
    return yaml.safe_load(found["data"]["status"])


def pending(name: str, replicas: int, cpu: str = "1500m") -> dict[str, Any]:
    tree = deployment(replicas)
    tree["metadata"]["name"] = name
    container = tree["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}}
    return tree


def world(user, groups: list[dict[str, Any]], flags=None, **config) -> Cluster:
    """The cluster after a run, with these groups and what a user did."""
    cluster = made(user, groups, flags, **config)
    finish(cluster)
    return cluster


def finish(cluster: Cluster) -> None:
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason


def made(
    user, groups: list[dict[str, Any]], flags=None, replicas: int = 1, prices=None, **config
) -> Cluster:
    """The cluster before its run."""
    tree = {"flags": {**FLAGS, **(flags or {})}, "nodeGroups": groups, "podPrices": prices or {}}
    content = node_groups_of(tree, "groups")
    cluster = Cluster(
        ClusterConfig(
            nodes=(),
            own_controllers=(autoscaler_of(content, replicas=replicas),),
            additions=(cloud_of(content.groups),),
            **config,
        ),
        log=EventLog(),
    )
    cluster.user("user", user)
    return cluster


def group(name: str = "small", template: Any = SMALL, **more: Any) -> dict[str, Any]:
    return {"name": name, "maxSize": 4, "provisionTime": "45s", "template": template, **more}


async def three_pods(ctx: Context) -> None:
    await Client(ctx).create(DEPLOYMENTS, pending("web", 3))


# -- examples ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cluster_grows_for_a_job_and_shrinks_after_it():
    cluster = executed("web.yaml", "node-groups.yaml").cluster
    assert messages(cluster, "TriggeredScaleUp") == [
        "pod triggered scale-up: [{small 1->4 (max: 5)}]"
    ]
    assert len(events(cluster, "DeletingNode")) == 2
    assert len(nodes(cluster)) == 2
    running = [pod for pod in pods(cluster) if pod.status.phase == "Running"]
    assert len(running) == 6
    assert {pod.spec.node_name for pod in running} == {*nodes(cluster)}
    told = status(cluster)
    assert told["clusterWide"]["health"]["nodeCounts"]["registered"]["ready"] == 2
    assert [each["health"]["cloudProviderTarget"] for each in told["nodeGroups"]] == [2, 0]


@pytest.mark.slow
def test_metrics_count_nodes_and_evictions():
    cluster = executed("web.yaml", "node-groups.yaml").cluster
    ((probe,),) = cluster.own_managers.values()
    (autoscaler,) = probe.controllers
    found = {
        (
            family.name.removeprefix("cluster_autoscaler_"),
            *(value for _, value in each.labels if value),
        ): each.value
        for family in autoscaler.families()
        for each in family.samples
    }
    assert found["scaled_up_nodes_total",] == 3
    assert found["scaled_down_nodes_total", "underutilized"] == 1
    assert found["scaled_down_nodes_total", "empty"] == 1
    assert found["evicted_pods_total", "succeeded"] == 2
    assert found["nodes_count", "ready"] == 2
    assert found["cluster_safe_to_autoscale",] == 1


@pytest.mark.slow
def test_min_domains_has_nodes_made_in_other_zones():
    cluster = executed("zones.yaml", "zone-groups.yaml").cluster
    assert nodes(cluster) == ["zone-a-1", "zone-b-1", "zone-c-1"]
    assert sorted(pod.spec.node_name for pod in pods(cluster)) == nodes(cluster)


@pytest.mark.slow
def test_requests_for_capacity_are_checked_provisioned_and_booked():
    cluster = executed("requests.yaml", "request-groups.yaml").cluster
    prefix = "/registry/autoscaling.x-k8s.io/provisioningrequests/"
    told = {
        obj.name: [
            (each["type"], each["status"], each["reason"])
            for each in obj.tree["status"]["conditions"]
        ]
        for obj in cluster.objects(prefix)
    }
    accepted = ("Accepted", "True", "Accepted")
    over = ("BookingExpired", "True", "CapacityReservationTimeExpired")
    assert told == {
        "check": [accepted, ("Provisioned", "True", "CapacityIsFound"), over],
        "grow": [accepted, ("Provisioned", "True", "CapacityIsProvisioned"), over],
        "too-many": [accepted, ("Failed", "True", "CapacityIsNotFound")],
    }
    assert messages(cluster, "TriggeredScaleUp") == [
        "pod triggered scale-up: [{pool 1->3 (max: 4)}]"
    ]
    assert len(nodes(cluster)) == 1


PRICES = {"cpu": 0.03, "memory": 0.004}
BATCH = """
apiVersion: v1
kind: PodTemplate
metadata: {name: worker}
template:
  spec:
    containers: [{name: main, image: i, resources: {requests: {cpu: 900m}}}]
"""
CHECK = """
---
apiVersion: autoscaling.x-k8s.io/v1
kind: ProvisioningRequest
metadata: {{name: {0}}}
spec:
  provisioningClassName: check-capacity.autoscaling.x-k8s.io
  parameters: {{noRetry: "true"}}
  podSets: [{{count: {1}, podTemplateRef: {{name: worker}}}}]
"""


@pytest.mark.parametrize(("batch", "apart"), [(False, 3), (True, 1)])
def test_a_batch_answers_requests_in_one_loop_each_with_what_is_left(batch, apart, tmp_path):
    counts = {"first": 1, "second": 2, "third": 1}
    requests = "".join(CHECK.format(name, count) for name, count in counts.items())
    (tmp_path / "requests.yaml").write_text(BATCH + requests)
    flags = {"enable-provisioning-requests": True, "check-capacity-batch-processing": batch}
    tree = {"flags": flags, "nodeGroups": [group(minSize=1, maxSize=1)]}
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump(tree))
    options = {
        "files": (str(tmp_path / "requests.yaml"),),
        "with": ("cluster-autoscaler",),
        "node_groups": str(tmp_path / "groups.yaml"),
        "until": 90,
    }
    run = Execution(plan_of(SCENARIO, **options))
    run.execute("bare")
    found = {
        obj.name: obj
        for obj in run.cluster.objects("/registry/autoscaling.x-k8s.io/provisioningrequests/")
    }
    told = {
        name: [each["type"] for each in obj.tree["status"]["conditions"]]
        for name, obj in found.items()
    }
    assert told == {  # two pods fit on the node
        "first": ["Accepted", "Provisioned"],
        "second": ["Accepted", "Failed"],
        "third": ["Accepted", "Provisioned"],
    }
    # Without batches a request is written when it is taken and when it is answered, then the status of the loop.
    versions = sorted(int(obj.metadata["resourceVersion"]) for obj in found.values())
    assert [two - one for one, two in pairwise(versions)] == [apart, apart]


def test_a_capacity_quota_holds_the_nodes_that_it_selects_and_says_so():
    cluster = executed("quota.yaml", "quota-groups.yaml").cluster
    assert nodes(cluster) == ["red-1", "red-2"]
    assert sum(not pod.spec.node_name for pod in pods(cluster)) == 1
    (found,) = cluster.objects("/registry/autoscaling.x-k8s.io/capacityquotas/")
    assert found.tree["status"]["used"] == {"resources": {"nodes": "2", "memory": "32Gi"}}
    assert messages(cluster, "NotTriggerScaleUp")[0].endswith(
        '1 exceeded quota: "CapacityQuota/team", resources: nodes'
    )


@pytest.mark.slow
def test_a_buffer_has_a_node_come_before_it_is_needed_and_keeps_it():
    cluster = executed("buffer.yaml", "buffer-groups.yaml").cluster
    assert len(nodes(cluster)) == 2  # two pods of the Deployment fill one
    ((who, text), *_) = events(cluster, "TriggeredScaleUp")
    assert who == "web"
    assert text == "capacity buffer 2 fake pods triggered scale-up: [{pool 1->2 (max: 5)}]"
    (found,) = cluster.objects("/registry/autoscaling.x-k8s.io/capacitybuffers/")
    status = found.tree["status"]
    assert (status["replicas"], status["podTemplateRef"]["name"]) == (
        2,
        "capacitybuffer-web-pod-template",
    )
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "ReadyForProvisioning": "True",
        "Provisioning": "True",
    }


BUFFER = """
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare}
spec: {podTemplateRef: {name: worker}, replicas: 3}
---
"""
SMALL_QUOTA = """---
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {requests.cpu: "2"}}
"""


@pytest.mark.parametrize(
    ("quota", "injects", "replicas", "size"),
    [("", True, 3, 2), ("", False, 3, 1), (SMALL_QUOTA, True, 2, 1)],
)
def test_a_buffer_of_a_template_grows_the_cluster_within_its_quota(
    quota, injects, replicas, size, tmp_path
):
    (tmp_path / "buffer.yaml").write_text(BUFFER + BATCH + quota)
    flags = {
        "capacity-buffer-controller-enabled": True,
        "capacity-buffer-pod-injection-enabled": injects,
    }
    tree = {"flags": flags, "nodeGroups": [group(minSize=1, maxSize=3)]}
    (tmp_path / "groups.yaml").write_text(yaml.safe_dump(tree))
    options = {
        "files": (str(tmp_path / "buffer.yaml"),),
        "with": ("cluster-autoscaler",),
        "node_groups": str(tmp_path / "groups.yaml"),
        "until": 100,
    }
    run = Execution(plan_of(SCENARIO, **options))
    run.execute("bare")
    (found,) = run.cluster.objects("/registry/autoscaling.x-k8s.io/capacitybuffers/")
    status = found.tree["status"]
    types = {each["type"] for each in status["conditions"]}
    assert ("Provisioning" in types) is injects
    assert (status["replicas"], len(nodes(run.cluster))) == (replicas, size)


def test_the_expander_price_grows_the_group_that_costs_least():
    def grown(price: float) -> list[str]:
        groups = [group(price=0.1), group("large", LARGE, price=price)]
        cluster = world(three_pods, groups, {"expander": "price"}, prices=PRICES)
        return nodes(cluster)

    assert grown(4.0) == ["small-1", "small-2", "small-3"]
    assert grown(0.05) == ["large-1"]


def test_of_two_autoscalers_the_second_takes_over_when_the_first_dies():
    async def user(ctx: Context) -> None:
        await ctx.sleep(5 * SECOND)
        ctx.faults.crash("cluster-autoscaler")
        await Client(ctx).create(DEPLOYMENTS, pending("web", 3))

    cluster = world(user, [group()], replicas=2)
    (lease,) = [
        obj for obj in cluster.objects("/registry/leases/") if obj.name == "cluster-autoscaler"
    ]
    assert lease.tree["spec"]["holderIdentity"].startswith("cluster-autoscaler-2_")
    assert len(nodes(cluster)) == 3


@pytest.mark.slow
def test_a_run_can_be_repeated():
    one, two = (summary_of(executed("zones.yaml", "zone-groups.yaml")).trace_hash for _ in "ab")
    assert one == two


# -- growth ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pods_that_failed_often_before_nodes_came_are_waited_for():
    cluster = world(three_pods, [group(provisionTime="1m")])
    assert [pod.status.phase for pod in pods(cluster)] == ["Running"] * 3


@pytest.mark.slow
def test_pods_that_are_too_new_for_a_loop_are_waited_for():
    async def user(ctx: Context) -> None:
        await ctx.sleep(605 * SECOND)
        await three_pods(ctx)

    cluster = world(user, [group()])
    assert [pod.status.phase for pod in pods(cluster)] == ["Running"] * 3


def test_pods_that_no_group_holds_are_told_why():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(DEPLOYMENTS, pending("web", 1, cpu="9"))

    cluster = world(user, [group(), group("large", LARGE), group("full", maxSize=0)])
    (text,) = messages(cluster, "NotTriggerScaleUp")
    assert text == (
        "pod didn't trigger scale-up: 2 Insufficient cpu, 1 max node group size reached"
    )
    assert nodes(cluster) == []


def test_a_refused_request_leaves_the_group_alone_and_another_grows():
    refused = [{"type": "Refused", "message": "quota exceeded", "count": 1}]
    cluster = world(three_pods, [group(failures=refused), group("large", LARGE)])
    assert messages(cluster, "FailedToScaleUpGroup") == [
        "Scale-up failed for group small: quota exceeded"
    ]
    assert nodes(cluster) == ["large-1"]
    assert all(pod.status.phase == "Running" for pod in pods(cluster))


@pytest.mark.slow
def test_a_group_that_stays_out_of_stock_is_tried_again_after_its_backoff():
    failures = [{"type": "CreationError", "message": "none left", "count": 3}]
    cluster = world(three_pods, [group(failures=failures)])
    assert messages(cluster, "ScaleUpFailed") == [
        "Failed adding 3 nodes to group small due to OutOfResources.STOCKOUT; source errors: none left"
    ]
    assert len(nodes(cluster)) == 3
    assert all(pod.status.phase == "Running" for pod in pods(cluster))


@pytest.mark.slow
def test_an_instance_that_never_registers_is_deleted():
    failures = [{"type": "NeverRegisters", "count": 1}]
    flags = {"max-node-provision-time": "5m"}
    cluster = world(three_pods, [group(failures=failures)], flags)
    assert messages(cluster, "DeleteUnregistered") == [
        "Removed unregistered node emulated://small-1"
    ]
    assert all(pod.status.phase == "Running" for pod in pods(cluster))


@pytest.mark.slow
@pytest.mark.parametrize("replaces", [True, False])
def test_pods_of_a_lost_instance_find_a_new_node(replaces):
    async def user(ctx: Context) -> None:
        await three_pods(ctx)
        await ctx.sleep(120 * SECOND)
        answer = await ctx.ask(CLOUD, Lose("small-1"))
        assert answer.error == ""

    cluster = world(user, [group(replacesLost=replaces)])
    assert "small-1" not in nodes(cluster)
    assert len(nodes(cluster)) == 3
    assert all(pod.status.phase == "Running" for pod in pods(cluster))


@pytest.mark.slow
def test_similar_groups_are_balanced():
    cluster = world(
        three_pods,
        [group("a"), group("b"), group("large", LARGE)],
        {"balance-similar-node-groups": True, "expander": "most-pods"},
    )
    assert nodes(cluster) == ["a-1", "a-2", "b-1"]


def test_a_group_that_goes_only_as_a_whole_comes_and_goes_as_a_whole():
    seen = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, pending("web", 1))
        await ctx.sleep(90 * SECOND)
        seen.extend(nodes(cluster))
        await client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 0}})

    cluster = made(user, [group(maxSize=3, options={"zeroOrMaxNodeScaling": True})])
    finish(cluster)
    assert seen == ["small-1", "small-2", "small-3"]
    assert nodes(cluster) == []
    removed = [text for text in messages(cluster, "ScaleDownEmpty") if text.endswith("removed")]
    assert len(removed) == 3


def test_the_least_size_is_enforced_when_asked_for():
    async def user(ctx: Context) -> None:
        await ctx.sleep(SECOND)

    cluster = world(user, [group(minSize=2, size=0)], {"enforce-node-group-min-size": True})
    assert nodes(cluster) == ["small-1", "small-2"]


def test_a_node_with_a_startup_taint_counts_as_coming_until_the_taint_is_off():
    key = "startup-taint.cluster-autoscaler.kubernetes.io/network"
    tainted = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}, **SMALL}
    seen = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, pending("web", 1))
        await ctx.sleep(150 * SECOND)
        seen.extend(nodes(cluster))
        await client.patch(NODES, "", "small-1", {"spec": {"taints": None}})

    cluster = made(user, [group(template=tainted)])
    finish(cluster)
    assert seen == nodes(cluster) == ["small-1"]
    assert [pod.status.phase for pod in pods(cluster)] == ["Running"]


def test_nodes_without_kubelet_are_made_by_the_cloud():
    async def user(ctx: Context) -> None:
        await ctx.sleep(SECOND)

    fake = {"metadata": {"annotations": {"emulate.controlplane/kubelet": "false"}}, **SMALL}
    cluster = world(user, [group(template=fake, minSize=2)])
    assert nodes(cluster) == ["small-1", "small-2"]
    assert not cluster.machines


# -- shrinking ---------------------------------------------------------------------------------------


def budget(least: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    }


def shrinking(least: int | None):
    """Two small pods on two nodes, after large ones that made the nodes are gone."""

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, pending("web", 2))
        if least is not None:
            await client.create(DISRUPTION_BUDGETS, budget(least))
        await ctx.sleep(100 * SECOND)
        requests = {"name": "main", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"template": {"spec": {"containers": [requests]}}}
        patch = {
            "spec": {**spec, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
        }
        await client.patch(DEPLOYMENTS, "default", "web", patch)

    return user


@pytest.mark.slow
def test_pods_are_evicted_before_their_node_goes():
    cluster = world(shrinking(None), [group()])
    assert len(nodes(cluster)) == 1
    (gone, _), *_ = events(cluster, "DeletingNode")
    assert f"Scale-down: node {gone} removed with drain" in messages(cluster, "ScaleDown")
    assert all(pod.status.phase == "Running" for pod in pods(cluster))


@pytest.mark.slow
def test_a_budget_that_allows_nothing_keeps_a_node():
    cluster = world(shrinking(2), [group()])
    assert len(nodes(cluster)) == 2
    assert events(cluster, "DeletingNode") == []


def test_a_refused_deletion_gives_the_node_back_and_is_tried_again():
    failures = [{"type": "DeletionRefused", "message": "not now", "count": 1}]
    cluster = world(shrinking(None), [group(failures=failures)])
    told = "failed to delete nodes from group small: not now"
    assert messages(cluster, "ScaleDownFailed") == [f"failed to drain and delete node: {told}"]
    assert len(nodes(cluster)) == 1


def test_marks_of_an_earlier_process_are_taken_off_nodes_of_groups():
    async def user(ctx: Context) -> None:
        taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
        client = Client(ctx)
        tree = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "other"},
            "spec": {"taints": [taint]},
        }
        await client.create(NODES, tree)
        await ctx.sleep(2 * SECOND)
        patch = {"spec": {"taints": [taint], "unschedulable": True}}
        await client.patch(NODES, "", "node-group-1", patch)

    cluster = world(user, [group("node-group", size=1, minSize=1)])
    cleaned = [(who, text) for who, text in events(cluster, "ClusterAutoscalerCleanup")]
    text = "removed ToBeDeletedByClusterAutoscaler taint from node node-group-1"
    assert cleaned == [("node-group-1", text)]
    spec = {obj.name: obj.tree["spec"] for obj in cluster.objects("/registry/minions/")}
    keys = {
        each: [taint["key"] for taint in tree.get("taints") or ()] for each, tree in spec.items()
    }
    assert "ToBeDeletedByClusterAutoscaler" not in keys["node-group-1"]
    assert "ToBeDeletedByClusterAutoscaler" in keys["other"]
    assert not spec["node-group-1"].get("unschedulable")
