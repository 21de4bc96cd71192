import pytest

from tests.apiserver.world import MERGE, World, pod


def test_pods_get_priority_tolerations_and_a_service_account():
    world = World(disabled=())
    refused = world.create("pods", pod("a"))
    assert refused.code == 403 and 'serviceaccount "default" not found' in refused.tree["message"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    world.create("serviceaccounts", account)
    spec = world.create("pods", pod("a")).tree["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["priority"] == 0
    assert {t["key"] for t in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


@pytest.mark.parametrize("spec", [None, {}, {"containers": None}, {"containers": []}])
def test_a_pod_without_containers_is_invalid_whatever_it_runs_as(spec):
    world = World(disabled=())
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    world.create("serviceaccounts", account)
    refused = world.create("pods", {**pod("a"), "spec": spec})
    assert refused.code == 422
    assert refused.tree["message"] == 'Pod "a" is invalid: spec.containers: Required value'


def test_a_priority_class_gives_its_value():
    world = World()
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 100,
    }
    world.create("priorityclasses", body, group="scheduling.k8s.io", namespace="")
    wanted = pod("a")
    wanted["spec"]["priorityClassName"] = "high"
    assert world.create("pods", wanted).tree["spec"]["priority"] == 100
    wanted = pod("b")
    wanted["spec"]["priorityClassName"] = "none"
    assert world.create("pods", wanted).code == 403


def test_a_new_node_is_tainted_until_it_is_ready():
    world = World()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    spec = world.create("nodes", node, namespace="").tree["spec"]
    assert spec["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def limits(**limit):
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", **limit}]},
    }


def test_limit_ranges_fill_in_and_refuse():
    world = World()
    world.create("limitranges", limits(max={"cpu": "1"}, defaultRequest={"cpu": "100m"}))
    made = world.create("pods", pod("a")).tree
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1"},
        "requests": {"cpu": "100m"},
    }
    refused = world.create("pods", pod("b", resources={"limits": {"cpu": "2"}}))
    assert refused.tree["message"] == (
        'pods "b" is forbidden: maximum cpu usage per Container is 1, but limit is 2'
    )


def quota(world, **hard):
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": hard},
    }
    world.create("resourcequotas", body)
    state = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    assert world.patch("resourcequotas", "q", state, MERGE, sub="status").code == 200


def test_a_quota_counts_what_is_created_and_refuses_what_exceeds_it():
    world = World()
    quota(world, **{"pods": "1", "requests.cpu": "1"})
    asking = {"resources": {"requests": {"cpu": "600m"}}}
    missing = world.create("pods", pod("a"))
    assert missing.tree["message"] == (
        'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: c'
    )
    assert world.create("pods", pod("b", **asking)).code == 201
    assert world.get("resourcequotas", "q").tree["status"]["used"] == {
        "pods": "1",
        "requests.cpu": "600m",
    }
    refused = world.create("pods", pod("c", **asking))
    assert refused.tree["message"] == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=600m, used: '
        "pods=1,requests.cpu=600m, limited: pods=1,requests.cpu=1"
    )


def test_a_quota_counts_any_kind_by_its_name():
    world = World()
    quota(world, **{"count/configmaps": "1"})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert world.create("configmaps", body, dryRun="All").code == 201
    assert world.create("configmaps", body).code == 201
    body["metadata"] = {"name": "b"}
    assert world.create("configmaps", body).code == 403
