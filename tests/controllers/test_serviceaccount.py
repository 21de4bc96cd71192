"""Every namespace has its account and the certificate by which its pods know the server."""

from __future__ import annotations

import pytest

from actors import RandomWalk
from controlplane.client.errors import ApiError
from controlplane.client.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
)
from controlplane.cluster_config import APISERVER, CONTROLLER_MANAGER
from controlplane.controllers.lifecycle.rootca.controller import DESCRIPTION, NAME, ROOT_CA
from tests.controllers.worlds import SECOND, Small, template, workload

BOTH = ("serviceaccount", "root-ca-cert-publisher")
NAMESPACE = (NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
SYSTEM = ("default", "kube-node-lease", "kube-public", "kube-system")


def namespaces_with(small: Small, prefix: str, name: str) -> list[str]:
    return sorted(obj.namespace for obj in small.objects(prefix) if obj.name == name)


def test_every_namespace_gets_an_account_and_the_certificate():
    small = Small(BOTH, NAMESPACE).run()
    wanted = sorted((*SYSTEM, "shop"))
    assert namespaces_with(small, "serviceaccounts", "default") == wanted
    assert namespaces_with(small, "configmaps", NAME) == wanted


def test_what_a_client_deleted_or_changed_comes_back():
    async def spoil(client, _ctx):
        await client.delete(SERVICE_ACCOUNTS, "shop", "default")
        await client.delete(CONFIG_MAPS, "shop", NAME)
        patch = {"data": {"ca.crt": "mine", "more": "too"}}
        await client.patch(CONFIG_MAPS, "default", NAME, patch, kind="application/merge-patch+json")

    small = Small(BOTH, NAMESPACE, 5, spoil).run()
    assert "shop" in namespaces_with(small, "serviceaccounts", "default")
    maps = {obj.namespace: obj.view for obj in small.objects("configmaps") if obj.name == NAME}
    for namespace in ("shop", "default"):
        assert maps[namespace].data == {"ca.crt": ROOT_CA}
        assert maps[namespace].annotations[DESCRIPTION]


@pytest.mark.parametrize("seed", range(3))
def test_a_namespace_that_goes_takes_both_along(seed):
    async def delete(client, _ctx):
        await client.delete(NAMESPACES, "", "shop")

    controllers = (*BOTH, "namespace")
    small = Small(controllers, NAMESPACE, 2, delete, strategy=RandomWalk(seed)).run()
    assert namespaces_with(small, "serviceaccounts", "default") == list(SYSTEM)
    assert namespaces_with(small, "configmaps", NAME) == list(SYSTEM)
    assert "shop" not in [obj.name for obj in small.objects("namespaces")]


def web(namespace: str):
    made = template({"app": "web"})
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": made}
    resource, tree = workload(REPLICA_SETS, "ReplicaSet", "web", spec)
    return resource, {**tree, "metadata": {"name": "web", "namespace": namespace}}, namespace


@pytest.mark.parametrize("seed", range(5))
def test_pods_wait_for_the_account_of_their_namespace(seed):
    async def asks_too_early(client, _ctx):
        await client.create(*NAMESPACE)
        bare = {**template({"app": "bare"}), "apiVersion": "v1", "kind": "Pod"}
        bare["metadata"] |= {"name": "bare", "namespace": "shop"}
        with pytest.raises(ApiError) as refused:
            await client.create(PODS, bare, "shop")
        assert refused.value.code == 403
        assert str(refused.value) == (
            'pods "bare" is forbidden: error looking up service account shop/default: '
            'serviceaccount "default" not found'
        )

    async def slow(_client, ctx):
        ctx.faults.delay(CONTROLLER_MANAGER, APISERVER, SECOND)

    steps = (slow, asks_too_early, web("shop"))
    small = Small(BOTH, *steps, service_accounts=True, strategy=RandomWalk(seed)).run()
    pods = [obj.view for obj in small.objects("pods")]
    assert [pod.namespace for pod in pods] == ["shop", "shop"]
    assert all(pod.status.phase == "Running" for pod in pods)
    assert all(pod.spec.service_account_name == "default" for pod in pods)


def test_the_first_namespaces_have_theirs_from_the_start():
    small = Small(BOTH, web("default"), service_accounts=True).run()
    assert "FailedCreate" not in small.reasons("ReplicaSet")
    (volume,) = small.objects("pods")[0].tree["spec"]["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert namespaces_with(small, "serviceaccounts", "default") == list(SYSTEM)


@pytest.mark.parametrize("left_out", BOTH)
def test_without_one_of_the_controllers_no_pod_is_asked_for_its_account(left_out):
    others = tuple(name for name in BOTH if name != left_out)
    small = Small(others, web("default"), service_accounts=True).run()
    assert all("volumes" not in obj.tree["spec"] for obj in small.objects("pods"))
    assert len(small.objects("pods")) == 2


def test_pods_of_one_template_share_their_spec_with_its_token():
    def other(namespace: str):
        resource, tree, where = web(namespace)
        template_ = tree["spec"]["template"]
        spec = {**template_["spec"], "terminationGracePeriodSeconds": 5}
        changed = {**tree["spec"], "template": {**template_, "spec": spec}}
        return (
            resource,
            {**tree, "metadata": {"name": "other", "namespace": where}, "spec": changed},
            where,
        )

    small = Small(BOTH, web("default"), other("default"), service_accounts=True).run()
    pods = {obj.name: obj.tree["spec"] for obj in small.objects("pods")}
    first, second = (spec for name, spec in pods.items() if name.startswith("web"))
    assert first["containers"] is second["containers"]
    assert first["volumes"] is second["volumes"]
    assert first["containers"][0]["volumeMounts"][-1]["name"] == first["volumes"][-1]["name"]
    others = [spec for name, spec in pods.items() if name.startswith("other")]
    assert all(spec["volumes"] != first["volumes"] for spec in others)
    assert others[0]["volumes"] is others[1]["volumes"]
