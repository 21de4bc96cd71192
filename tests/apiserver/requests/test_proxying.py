"""Proxies to nodes, pods and services, on a server alone."""

from __future__ import annotations

import pytest

from controlplane.apiserver.requests.proxying import split_name
from tests.apiserver.test_client_views import ask
from tests.apiserver.world import World, pod

NOTE = "emulate.controlplane/answer"


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("web", ("", "web", "")),
        ("web:80", ("", "web", "80")),
        ("https:web:main", ("https", "web", "main")),
        ("http:web:", ("http", "web", "")),
        ("ftp:web:80", None),
        (":80", None),
        ("a:b:c:d", None),
    ],
)
def test_a_name_may_have_a_scheme_and_a_port(given, parts):
    assert split_name(given) == parts


@pytest.fixture
def world():
    found = World()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    found.create("nodes", node, namespace="")
    node["status"] = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "172.16.0.1"}],
    }
    assert found.do("update", "nodes", "n", node, namespace="", sub="status").code == 200
    made = pod("p")
    made["spec"]["nodeName"] = "n"
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "name": "main"}]
    assert found.create("pods", made).code == 201
    running = {**made, "status": {"phase": "Running", "podIP": "10.0.0.9"}}
    assert found.do("update", "pods", "p", running, sub="status").code == 200
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"name": "main", "port": 80, "targetPort": 8080}]},
    }
    assert found.create("services", service).code == 201
    return found


def endpoints(world, addresses):
    tree = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "web"},
        "subsets": [{"addresses": addresses, "ports": [{"name": "main", "port": 8080}]}],
    }
    assert world.create("endpoints", tree).code == 201


PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


def test_a_pod_answers_at_its_ports(world):
    found = ask(world, "GET", f"{PODS}/p/proxy/some/path")
    assert found.code == 200
    assert found.text.startswith("pod: p\nport: 8080\nGET /some/path\n")
    posted = ask(world, "POST", f"{PODS}/p/proxy/form", "key=value", media="text/plain")
    assert posted.text.startswith("pod: p\nport: 8080\nPOST /form\n")
    assert posted.text.endswith("\n\nkey=value")
    refused = ask(world, "GET", f"{PODS}/p:81/proxy/")
    assert (refused.code, refused.tree["message"]) == (
        503,
        "error trying to reach service: dial tcp 10.0.0.9:81: connect: connection refused",
    )
    assert ask(world, "GET", f"{PODS}/missing/proxy/").code == 404


def test_a_pod_without_an_address_is_not_reached(world):
    assert world.create("pods", pod("new")).code == 201
    found = ask(world, "GET", f"{PODS}/new/proxy/")
    assert (found.code, found.tree["message"]) == (400, "address not allowed")


@pytest.mark.parametrize("name", ["web:main", "web:80", "http:web:main"])
def test_a_service_leads_to_a_pod_behind_it(world, name):
    target = {"kind": "Pod", "name": "p", "namespace": "default"}
    endpoints(world, [{"ip": "10.0.0.9", "targetRef": target}])
    found = ask(world, "GET", f"{SERVICES}/{name}/proxy/x")
    assert found.code == 200
    assert "pod: p\nport: 8080\nGET /x\n" in found.text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("web:99", 'no service port 99 found for service "web"'),
        ("web:other", 'no endpoints available for service "web:other"'),
        ("web:main", 'no endpoints available for service "web:main"'),
    ],
)
def test_a_service_that_leads_nowhere_says_so_in_upstreams_words(world, name, message):
    stale = {"kind": "Pod", "name": "p", "namespace": "default"}
    endpoints(world, [{"ip": "10.0.0.7", "targetRef": stale}, {"ip": "192.0.2.1"}])
    found = ask(world, "GET", f"{SERVICES}/{name}/proxy/")
    assert (found.code, found.tree["message"]) == (503, message)


def test_a_kubelet_answers_for_its_node(world):
    assert ask(world, "GET", "/api/v1/nodes/n/proxy/healthz").text == "ok"
    assert '"name":"p"' in ask(world, "GET", "/api/v1/nodes/n:10250/proxy/pods").text
    assert ask(world, "GET", "/api/v1/nodes/n/proxy/nothing").code == 404
    found = ask(world, "GET", "/api/v1/nodes/n:1/proxy/healthz")
    assert (found.code, found.tree["reason"]) == (503, "ServiceUnavailable")


class Pages:
    kinds = property(lambda _: {})

    def text(self, path, nodes, pods, now, stored):
        if path != "/metrics/nodes":
            return None
        return "".join(f"{name} {len(pods.get(name, ()))}\n" for name in sorted(nodes))


def test_a_fake_node_answers_with_the_pages_of_its_server():
    world = World(node_pages=Pages())
    fake = {"name": "f", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    status = {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    for name, meta in (("f", fake), ("n", {"name": "n"})):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        world.create("nodes", node, namespace="")
        body = {**node, "status": status}
        assert world.do("update", "nodes", name, body, namespace="", sub="status").code == 200
    made = pod("p")
    made["spec"]["nodeName"] = "f"
    assert world.create("pods", made).code == 201
    nodes = "/api/v1/nodes"
    assert ask(world, "GET", f"{nodes}/f/proxy/metrics/nodes").text == "f 1\nn 0\n"
    assert ask(world, "GET", f"{nodes}/f/proxy/healthz").text == "ok"
    assert ask(world, "GET", f"{nodes}/f/proxy/metrics").code == 404
    assert ask(world, "GET", f"{nodes}/n/proxy/metrics/nodes").code == 503
