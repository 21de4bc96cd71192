"""Versions and resources that a feature gate serves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.apiserver.front.answering import answer
from controlplane.apiserver.requests.authorization.policy import default_roles
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.feature_gates import GATES as GATES_OF_SERVER
from controlplane.apiserver.schema.feature_gates import switched_on
from controlplane.errors import UsageError
from controlplane.scheduler.config.features import SERVED, SWITCHABLE, parse
from tests.apiserver.world import World

GROUP, VERSION = "scheduling.k8s.io", "v1alpha2"
WHERE = {"group": GROUP, "version": VERSION}
GATES = frozenset(("GenericWorkload", "GangScheduling"))


def pod_group(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    }


def fetched(world: World, path: str, accept: str = "application/json") -> Any:
    request = HttpRequest("GET", path, headers={"accept": accept})
    found = answer(world.server, request, world.now)
    return found.tree if found.text is None else json.loads(found.text)


def test_without_the_gate_nothing_of_it_is_served() -> None:
    world = World()
    assert world.create("podgroups", pod_group(), **WHERE).code == 404
    assert world.server.table.versions(GROUP) == ["v1"]
    assert world.server.table.get("resource.k8s.io", "v1beta2", "devicetaintrules") is None


def test_a_gate_serves_groups_and_workloads() -> None:
    world = World(gates=GATES)
    assert world.server.table.versions(GROUP) == ["v1", VERSION]
    made = world.create("podgroups", pod_group(priority=3), **WHERE)
    assert made.code == 201
    assert "priority" not in made.tree["spec"]  # its gate is off
    body = {"status": {"conditions": []}, "metadata": {"resourceVersion": ""}}
    assert world.patch("podgroups", "g", body, sub="status", **WHERE).code == 200
    changed = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    refused = world.patch("podgroups", "g", changed, **WHERE)
    assert refused.code == 422
    assert (
        "spec.schedulingPolicy: Invalid value: null: field is immutable" in refused.tree["message"]
    )
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    workload = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": [template]},
    }
    assert world.create("workloads", workload, **WHERE).code == 201


def test_a_gate_serves_rules_for_taints_of_devices() -> None:
    world = World(gates=frozenset(("DRADeviceTaintRules",)))
    body = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"taint": {"key": "a.io/x", "effect": "NoExecute"}},
    }
    where = {"group": "resource.k8s.io", "version": "v1beta2", "namespace": ""}
    made = world.create("devicetaintrules", body, **where)
    assert made.code == 201
    assert made.tree["spec"]["taint"]["timeAdded"]
    assert world.server.table.get("resource.k8s.io", "v1beta2", "resourceclaims") is None


@pytest.mark.parametrize(
    ("release", "gates"), [("1.36", {"GenericWorkload"}), ("1.35", set()), ("1.30", set())]
)
def test_gates_of_an_earlier_release_are_off(release: str, gates: set[str]) -> None:
    features = {"GenericWorkload": True, "GangScheduling": False, "SchedulerQueueingHints": True}
    assert switched_on(features, release) == gates


def test_clients_find_what_a_gate_serves() -> None:
    world = World(gates=GATES)
    group = fetched(world, f"/apis/{GROUP}")
    assert [each["version"] for each in group["versions"]] == ["v1", VERSION]
    assert group["preferredVersion"]["version"] == "v1"
    listed = fetched(world, f"/apis/{GROUP}/{VERSION}")["resources"]
    assert [each["name"] for each in listed] == ["podgroups", "podgroups/status", "workloads"]
    schema = fetched(world, f"/openapi/v3/apis/{GROUP}/{VERSION}")
    mode = schema["components"]["schemas"][f"io.k8s.api.scheduling.{VERSION}.PodGroupSpec"]
    assert mode["properties"]["disruptionMode"]["default"] == "Pod"
    assert f"apis/{GROUP}/{VERSION}" not in fetched(World(), "/openapi/v3")["paths"]


def refusal(world: World, **spec: Any) -> str:
    made = world.create("podgroups", pod_group(**spec), **WHERE)
    assert made.code == 403
    return str(made.tree["message"])


def test_a_group_needs_the_workload_and_the_template_that_it_names() -> None:
    world = World(gates=GATES)

    def named(template: str) -> dict[str, Any]:
        reference = {"workloadName": "w", "podGroupTemplateName": template}
        return {"podGroupTemplateRef": {"workload": reference}}

    assert 'PodGroup rejected: Workload "w" not found' in refusal(world, **named("t"))
    workload = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]},
    }
    assert world.create("workloads", workload, **WHERE).code == 201
    other = 'PodGroup rejected: PodGroupTemplate "other" not found in Workload "w"'
    assert other in refusal(world, **named("other"))
    made = world.create("podgroups", pod_group(**named("t")), **WHERE)
    assert made.code == 201
    assert made.tree["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


def test_the_priority_of_a_group_is_that_of_its_class() -> None:
    world = World(gates=GATES | {"WorkloadAwarePreemption"}, disabled=())
    assert "no PriorityClass with name high was found" in refusal(world, priorityClassName="high")
    wrong = "priority set in the pod group (3) must match the priority computed (0)"
    assert wrong in refusal(world, priority=3)
    made = world.create("podgroups", pod_group(), **WHERE)
    assert made.code == 201 and made.tree["spec"]["priority"] == 0


def test_kubectl_prints_the_columns_of_groups() -> None:
    world = World(gates=GATES)
    assert world.create("podgroups", pod_group(), **WHERE).code == 201
    table = fetched(
        world,
        f"/apis/{GROUP}/{VERSION}/namespaces/default/podgroups",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    )
    names = [each["name"] for each in table["columnDefinitions"]]
    assert names == ["Name", "Policy", "Workload", "Status", "Age"]
    assert table["rows"][0]["cells"][:4] == ["g", "Gang", "<none>", "Pending"]


def test_gates_that_serve_kinds_are_accepted_and_those_that_nothing_acts_on_are_not() -> None:
    assert "GenericWorkload" in SERVED
    assert parse(["GenericWorkload=true"]) == {"GenericWorkload": True}
    accepted = (*SERVED, *SWITCHABLE)
    others = [name for name in GATES_OF_SERVER if name not in accepted]
    assert set(SERVED) < set(GATES_OF_SERVER)
    for name in others:
        with pytest.raises(UsageError, match=f"feature gate .*{name}"):
            parse([f"{name}=true"])


def test_default_roles_grant_what_a_gate_serves() -> None:
    def granted(gates: frozenset[str]) -> dict[str, list[str]]:
        return {
            role["metadata"]["name"]: [
                resource
                for rule in role["rules"]
                if rule.get("apiGroups") == [GROUP]
                for resource in rule["resources"]
            ]
            for role in default_roles(gates)
        }

    names = ("view", "edit", "system:kube-scheduler")
    plain, gated = granted(frozenset()), granted(GATES)
    assert [plain[name] for name in names] == [[], [], []]
    viewed = ["podgroups", "podgroups/status", "workloads"]
    assert gated["view"] == viewed
    assert set(gated["edit"]) == set(viewed)
    assert gated["system:kube-scheduler"] == ["podgroups", "podgroups/status"]
