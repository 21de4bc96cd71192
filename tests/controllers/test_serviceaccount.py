"""Every namespace has its account and the certificate by which its pods know the server."""

from __future__ import annotations

import pytest

from actors import RandomWalk
from controlplane.client.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from controlplane.controllers.rootca.controller import DESCRIPTION, NAME, ROOT_CA
from tests.controllers.worlds import Small

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


def test_what_somebody_deleted_or_changed_comes_back():
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
