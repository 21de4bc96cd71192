"""Versions that ended by 1.25, served on request, as operators of that time ask for them."""

from __future__ import annotations

import json

import pytest
import trio

from controlplane.errors import UsageError
from tests.apiserver.http.session import prepared, served

BUDGET = {
    "apiVersion": "policy/v1beta1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b"},
    "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}},
}
PATH = "/apis/policy/{}/namespaces/default/poddisruptionbudgets"


async def test_an_object_of_an_old_version_is_that_of_the_version_that_followed():
    async with served(old_versions=True) as session:
        made = await session.ask("POST", PATH.format("v1beta1"), BUDGET)
        assert made.code == 201
        assert made.tree["apiVersion"] == "policy/v1beta1"
        later = await session.ask("GET", PATH.format("v1") + "/b")
        assert later.tree["apiVersion"] == "policy/v1"
        assert later.tree["spec"]["maxUnavailable"] == 1
        groups = (await session.ask("GET", "/apis/policy")).tree
        assert [each["version"] for each in groups["versions"]] == ["v1", "v1beta1"]
        assert groups["preferredVersion"]["version"] == "v1"


@pytest.mark.parametrize(
    "path",
    [
        "/apis/batch/v1beta1/cronjobs",
        "/apis/rbac.authorization.k8s.io/v1beta1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1beta1/rolebindings",
        "/apis/policy/v1beta1/poddisruptionbudgets",
    ],
)
async def test_old_versions_are_served_on_request_alone(path):
    async with served() as session:
        assert (await session.ask("GET", path)).code == 404
    async with served(old_versions=True) as session:
        assert (await session.ask("GET", path)).code == 200
        assert (await session.ask("GET", path.rpartition("/")[0])).code == 200


async def test_files_may_hold_them(tmp_path):
    path = tmp_path / "budget.yaml"
    path.write_text(json.dumps(BUDGET))
    async with served(old_versions=True, files=(str(path),)) as session:
        with trio.fail_after(120):
            while (await session.ask("GET", PATH.format("v1") + "/b")).code != 200:
                await trio.sleep(0.01)
    with pytest.raises(UsageError, match="policy/v1beta1"):
        prepared(files=(str(path),))
