"""What an API server counts: under which labels, and that it agrees with what was answered."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.api.request import Request
from controlplane.apiserver.requests.metrics import RequestMetrics, key_of, key_of_http
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.watch_cache import Interest, WatchCache
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import PODS, Client
from controlplane.metrics.family import Buckets
from tests.test_apiservers import servers
from tests.test_cluster import cluster_with, plain_pod, run

TABLE = ApiServer(uid=str, suffix=str).table


def numbers(activity):
    """Family -> labels (without empty ones) -> value, a histogram by its count."""
    return {
        family.name: {
            frozenset((name, value) for name, value in sample.labels if value): (
                sample.value.count if isinstance(sample.value, Buckets) else sample.value
            )
            for sample in family.samples
        }
        for family in activity.families()
    }


def labels(**given):
    return frozenset({"component": "apiserver", **given}.items())


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (
            Request("get", resource="nodes", name="n"),
            ("GET", "", "", "v1", "nodes", "", "resource"),
        ),
        (
            Request("list", resource="pods", namespace="d"),
            ("LIST", "", "", "v1", "pods", "", "namespace"),
        ),
        (
            Request("create", resource="pods", namespace="d", query={"dryRun": "All"}),
            ("POST", "All", "", "v1", "pods", "", "namespace"),
        ),
        (
            Request("update", "apps", "v1", "deployments", "d", "x", "status"),
            ("PUT", "", "apps", "v1", "deployments", "status", "namespace"),
        ),
        (
            Request(
                "patch",
                resource="pods",
                namespace="d",
                name="x",
                content_type="application/apply-patch+yaml",
            ),
            ("APPLY", "", "", "v1", "pods", "", "namespace"),
        ),
        (
            Request("deletecollection", resource="nodes"),
            ("DELETECOLLECTION", "", "", "v1", "nodes", "", "cluster"),
        ),
    ],
)
def test_a_components_request_has_upstreams_labels(asked, key):
    assert key_of(asked) == key


@pytest.mark.parametrize(
    ("method", "path", "query", "code", "key"),
    [
        ("GET", "/api/v1/nodes", {}, 200, ("LIST", "", "", "v1", "nodes", "", "cluster")),
        (
            "GET",
            "/api/v1/nodes",
            {"watch": ["1"]},
            200,
            ("WATCH", "", "", "v1", "nodes", "", "cluster"),
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/d/deployments/x/scale",
            {},
            200,
            ("PUT", "", "apps", "v1", "deployments", "scale", "namespace"),
        ),
        (
            "DELETE",
            "/api/v1/namespaces/d/pods",
            {},
            200,
            ("DELETECOLLECTION", "", "", "v1", "pods", "", "namespace"),
        ),
        ("GET", "/healthz", {}, 200, ("GET", "", "", "", "", "/healthz", "")),
        ("GET", "/any/thing", {}, 404, ("GET", "", "", "", "", "", "")),
        ("GET", "/openapi/v3/apis/apps/v1", {}, 200, ("GET", "", "", "", "", "/openapi", "")),
    ],
)
def test_a_request_from_outside_has_them_too(method, path, query, code, key):
    http = HttpRequest(method, path, query, {}, b"")
    assert key_of_http(http, code, TABLE) == key


def test_no_word_of_a_client_that_the_server_does_not_know_becomes_a_label():
    nothing = ("", "", "", "", "", "")
    for number in range(20):
        for method, path, code in (
            ("GET", f"/apis/g{number}/v1/things", 403),
            ("GET", f"/api/v{number + 2}/pods", 404),
            ("GET", f"/api/v1/things{number}", 401),
            ("GET", f"/api/v1/namespaces/n{number}/pods/p/sub{number}", 403),
            ("GET", f"/no/{number}", 403),
        ):
            key = key_of_http(HttpRequest(method, path), code, TABLE)
            assert key == ("GET", *nothing)
        made_up = HttpRequest(f"VERB{number}", "/api/v1/pods")
        assert key_of_http(made_up, 405, TABLE) == ("other", *nothing)


def test_open_watches_are_counted_and_ended_ones_forgotten():
    cache = WatchCache(Store().keyspace("/registry/pods/"))
    metrics = RequestMetrics()
    key = key_of(Request("watch", resource="pods"))
    watchers = [cache.watch(Interest()) for _ in range(2000)]
    for number, watcher in enumerate(watchers):
        metrics.watched(key, watcher)
        if number % 4:
            watcher.stop()
    metrics.watched(key, None, 410)
    assert metrics.open_watches() == {key: 500}
    assert metrics.codes == {(key, 200): 2000, (key, 410): 1}
    assert len(metrics._watches) < 1300


def test_answers_are_counted_by_what_was_asked_and_by_code():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for name in ("a", "b", "a"):
            try:
                await client.create(PODS, plain_pod(name))
            except ApiError as error:
                assert error.code == 409
        await ctx.sleep(10**10)

    cluster = cluster_with(user)
    run(cluster)
    found = numbers(cluster.activities[0])
    pods = {"resource": "pods", "scope": "namespace", "verb": "POST", "version": "v1"}
    requests = found["apiserver_request_total"]
    assert requests[labels(**pods, code="201")] == 2
    assert requests[labels(**pods, code="409")] == 1
    assert requests[labels(**pods, subresource="binding", code="201")] == 2
    assert found["apiserver_request_duration_seconds"][labels(**pods)] == 3
    watches = {"resource": "pods", "scope": "cluster", "verb": "WATCH", "version": "v1"}
    assert found["apiserver_longrunning_requests"][labels(**watches)] >= 2
    assert found["apiserver_resource_objects"][frozenset({("resource", "pods")})] == 2
    assert found["apiserver_storage_objects"][frozenset({("resource", "nodes")})] == 2
    written = len(cluster.store.keyspace("/registry/pods/").events_after(0))
    received = found["apiserver_watch_cache_events_received_total"]
    # What was there when the cache was made, it has listed.
    assert written - 1 <= received[frozenset({("resource", "pods")})] <= written
    bound = sum(count for labels_, count in requests.items() if ("code", "201") in labels_)
    created = [
        count for verb, count in cluster.activity.writes.items() if verb.startswith("create")
    ]
    assert bound == sum(created)


def test_a_request_that_waits_for_the_store_takes_time():
    async def user(ctx: Context, cluster) -> None:
        cluster.world.faults.delay("apiserver", "etcd", 2 * 10**9)
        await Client(ctx, cluster.address("user")).create(PODS, plain_pod("slow"))

    cluster = servers(user, disabled_admission=("Priority",))
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    (histogram,) = (
        sample.value
        for activity in cluster.activities
        for family in activity.families()
        if family.name == "apiserver_request_duration_seconds"
        for sample in family.samples
        if ("verb", "POST") in sample.labels and ("resource", "pods") in sample.labels
    )
    assert histogram.count == 1
    assert histogram.most >= 2
