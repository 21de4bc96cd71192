"""Fields of gates that are off are dropped, unless the object uses them already."""

from __future__ import annotations

from controlplane.apiserver.kinds.core.pods.disabled_fields import without_disabled
from tests.apiserver.world import World, deployment, pod

SIGNAL = {"stopSignal": "SIGUSR1"}
HOOK = {"preStop": {"exec": {"command": ["x"]}}}
PLAIN = {"containers": [{"name": "c", "image": "i"}]}


def test_a_pod_group_is_dropped():
    assert without_disabled({**PLAIN, "schedulingGroup": {"podGroupName": "g"}}, None) == PLAIN


def test_a_signal_is_dropped_and_so_is_a_lifecycle_that_says_nothing_else():
    spec = {
        "containers": [{"name": "c", "lifecycle": SIGNAL}],
        "initContainers": [{"name": "i", "lifecycle": {**SIGNAL, **HOOK}}],
    }
    assert without_disabled(spec, None) == {
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "i", "lifecycle": HOOK}],
    }


def test_sources_of_projected_volumes_are_emptied():
    sources = [{"clusterTrustBundle": {"path": "p"}}, {"podCertificate": {"keyType": "k"}}]
    volume = {"name": "v", "projected": {"sources": [*sources, {"secret": {"name": "s"}}]}}
    made = without_disabled({"volumes": [volume]}, None)
    assert made["volumes"][0]["projected"]["sources"] == [{}, {}, {"secret": {"name": "s"}}]


def test_what_is_in_use_stays():
    spec = {
        "schedulingGroup": {"podGroupName": "g"},
        "containers": [{"name": "c", "lifecycle": SIGNAL}],
        "volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {}}]}}],
    }
    assert without_disabled(spec, spec) is spec


def test_a_spec_without_such_fields_stays_as_it_is():
    assert without_disabled(PLAIN, None) is PLAIN


def test_pods_and_templates_drop_them_when_they_are_written():
    world = World()
    body = pod("a")
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    assert "schedulingGroup" not in world.create("pods", body).tree["spec"]
    owner = deployment("d")
    owner["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    made = world.create("deployments", owner, group="apps")
    assert made.code == 201
    assert "schedulingGroup" not in made.tree["spec"]["template"]["spec"]
