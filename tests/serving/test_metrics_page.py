"""`/metrics` of a served cluster: everybody's numbers, for who may read them, and no trace of the reading."""

from __future__ import annotations

import pytest
import trio

from controlplane.metrics.exposition import CONTENT_TYPE
from tests.apiserver.http.session import CONFIGMAPS, config, served
from tests.apiserver.http.test_impersonation import binding, made, role, user


async def test_all_components_are_on_one_page():
    async with served(nodes=2) as session:
        made_ = await session.ask("POST", CONFIGMAPS, config("a"))
        assert made_.code == 201
        with trio.fail_after(120):
            found = await session.ask("GET", "/metrics")
            while b'kubelet_running_pods{node="node-2"} 0\n' not in found.body:
                found = await session.ask("GET", "/metrics")
        assert (found.code, found.headers["content-type"]) == (200, CONTENT_TYPE)
        text = found.body.decode()
        assert (
            'apiserver_request_total{code="201",component="apiserver",dry_run="",group="",'
            'resource="configmaps",scope="namespace",subresource="",verb="POST",version="v1"} 1\n'
        ) in text
        assert 'scheduler_pending_pods{queue="active"} 0\n' in text
        assert 'subresource="/metrics"' not in text  # no reading entered the world
        assert 'kubelet_running_pods{node="node-1"} 0\n' in text
        assert text.count("# TYPE kubelet_running_pods gauge\n") == 1
        parser = pytest.importorskip("prometheus_client.parser")
        assert len([*parser.text_string_to_metric_families(text)]) == text.count("# TYPE")


async def test_reading_needs_a_role_on_the_path():
    async with served() as session:
        assert (await session.ask("GET", "/metrics", Impersonate_User="bob")).code == 403
        rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
        await made(session, "clusterroles", role("ClusterRole", "scraper", rule))
        await made(
            session,
            "clusterrolebindings",
            binding("ClusterRoleBinding", "bob", "ClusterRole", "scraper", user("bob")),
        )
        assert (await session.ask("GET", "/metrics", Impersonate_User="bob")).code == 200
        assert (await session.ask("GET", "/metrics", Impersonate_User="eve")).code == 403
        assert (await session.ask("HEAD", "/metrics")).body == b""
        assert (await session.ask("POST", "/metrics")).code == 405
