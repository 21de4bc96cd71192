"""The usage of a pod on a fake node: its own object first, then the first that selects it and knows the container."""

from __future__ import annotations

from controlplane.api.object import Object
from controlplane.api.times import parse_time
from controlplane.kwok.usages import ResourceUsages, read

NOW = parse_time("2026-03-01T12:00:00Z")
NODE = {"metadata": {"name": "n", "annotations": {"kwok.x-k8s.io/node": "fake"}}}


def pod(name="p", namespace="shop", node="n", **annotations):
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "2"}}},
                {"name": "side"},
            ],
        },
    }


def usage(kind="ClusterResourceUsage", selector=None, **by_containers):
    """Entries by the names of their containers, `all` for the rest."""
    spec = {
        "usages": [
            {"containers": [] if name == "all" else [name], "usage": {"cpu": amount}}
            for name, amount in by_containers.items()
        ]
    }
    if selector is not None:
        spec["selector"] = selector
    meta = {"name": "p", "namespace": "shop"}
    return read(
        {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}
    )


def cpu(usages, of, container="main"):
    node_of = {"n": Object(NODE), "other": Object({"metadata": {"name": "other"}})}.get
    told = ResourceUsages(tuple(usages)).at(node_of, NOW, lambda kind: ())
    return told(of, container, "cpu")


FIXED = {"value": "100m"}


def test_a_named_container_wins_over_an_entry_for_all():
    given = [usage(all=FIXED, side={"value": "7m"})]
    assert cpu(given, pod()) == 100
    assert cpu(given, pod(), "side") == 7


def test_a_pods_own_object_is_the_only_one_that_is_asked():
    given = [usage(all=FIXED), usage("ResourceUsage", main={"value": "9m"})]
    assert cpu(given, pod()) == 9
    assert cpu(given, pod(), "side") == 0
    assert cpu(given, pod("another")) == 100


def test_the_first_object_that_selects_the_pod_and_knows_the_container_counts():
    given = [
        usage(selector={"matchNamespaces": ["billing"]}, all={"value": "1m"}),
        usage(selector={"matchNames": ["p"]}, side={"value": "2m"}),
        usage(all=FIXED),
    ]
    assert cpu(given, pod()) == 100
    assert cpu(given, pod(), "side") == 2
    assert cpu(given, pod(namespace="billing")) == 1


def test_an_expression_sees_node_pod_and_container():
    rule = {"expression": 'container.resources.requests["cpu"] * 0.5 + Quantity("1m")'}
    assert cpu([usage(all=rule)], pod()) == 1001
    assert cpu([usage(all=rule)], pod(), "side") == 1


def test_what_is_unknown_or_fails_is_zero():
    assert cpu([], pod()) == 0
    assert cpu([usage(all={"expression": 'pod.metadata.labels["x"] == "y"'})], pod()) == 0
    assert cpu([usage(all={"expression": "pod.metadata.name"})], pod()) == 0


def test_pods_on_other_nodes_are_read_by_their_annotations():
    elsewhere = pod(node="other", **{"emulate.controlplane/cpu-usage": "3m"})
    assert cpu([usage(all=FIXED)], elsewhere) == 3
    assert cpu([usage(all=FIXED)], pod(node="gone")) is None
