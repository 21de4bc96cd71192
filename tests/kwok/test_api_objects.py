"""Objects of KWOK that are made in the API (--enable-crds): the controller and its server follow them."""

from __future__ import annotations

import json

import pytest
import trio
import yaml

from controlplane.scenarios.search import replaying
from tests.apiserver.http.session import PODS, served
from tests.cli.test_run import ROOT, controlplane
from tests.serving.local.test_connection import NODE, POD, line, rule

FOLDER = ROOT / "examples" / "kwok"
STAGES = "/apis/kwok.x-k8s.io/v1alpha1/stages"
ENABLED = ("--with", "kwok", "--enable-crds", "Stage")


@pytest.mark.slow
def test_stages_among_the_manifests_run_pods_on_fake_nodes_and_replay(tmp_path):
    chosen = ("run", FOLDER / "stages.yaml", FOLDER / "web.yaml", "--nodes", 1, *ENABLED)
    done = controlplane(*chosen, "--out", tmp_path / "out", "--format", "json")
    assert done.returncode == 0, done.stderr
    phases = [pod["phase"] for pod in json.loads(done.stdout)["pods"]]
    assert (phases.count("Running"), phases.count("Succeeded")) == (20, 3)
    again = controlplane("replay", tmp_path / "out" / "run.rec", "--format", "json")
    assert json.loads(again.stdout)["same_trace"], again.stderr


CUSTOM = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  names: {kind: Lamp, plural: lamps}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Lamp
metadata: {name: lamp, annotations: {emulate.controlplane/submit-seconds: "5"}}
"""
LIT = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: lit}
spec:
  resourceRef: {apiGroup: example.com/v1, kind: Lamp}
  selector: {matchExpressions: [{key: .lit, operator: DoesNotExist}]}
  steps: [{patch: {type: merge, template: 'lit: "yes"'}}]
"""


@pytest.mark.parametrize("stored", [True, False])
def test_stages_move_objects_of_a_kind_that_is_defined_later(stored, tmp_path):
    world, stages = tmp_path / "world.yaml", tmp_path / "stages.yaml"
    world.write_text(CUSTOM)
    stages.write_text(LIT)
    given = (stages, *ENABLED) if stored else ("--with", "kwok", "--stages", stages)
    done = controlplane("run", world, *given, "--nodes", 0, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    objects = yaml.safe_load_all((tmp_path / "out" / "objects.yaml").read_text())
    lamps = [each for each in objects if each["kind"] == "Lamp"]
    assert [each.get("lit") for each in lamps] == ["yes"]
    log = (tmp_path / "out" / "log.jsonl").read_text().splitlines()
    tasks = {json.loads(each)["task"] for each in log}
    assert any(task.startswith("kwok.play.Lamp") for task in tasks)


def test_stages_of_files_and_of_the_api_are_not_mixed():
    refused = controlplane("run", FOLDER / "web.yaml", *ENABLED, "--stages", FOLDER / "stages.yaml")
    assert refused.returncode == 2
    told = "stages.yaml: Stage: --enable-crds reads objects of this kind from the API"
    assert told in refused.stderr
    unknown = controlplane("run", FOLDER / "web.yaml", *ENABLED, "--enable-crds", "Lamp")
    assert unknown.returncode == 2
    told = (
        "--enable-crds: 'Lamp': expected Stage, Metric, ResourceUsage, ClusterResourceUsage, Logs"
    )
    assert told in unknown.stderr
    alone = controlplane("run", FOLDER / "web.yaml", "--with", "kwok", "--enable-crds", "Lamp")
    assert told in alone.stderr
    missing = controlplane("run", FOLDER / "web.yaml", "--with", "kwok", "--enable-crds", "Logs")
    assert missing.returncode == 2
    assert "--with kwok needs --stages FILE" in missing.stderr


async def phase(session, name, wanted):
    with trio.fail_after(120):
        while True:
            found = await session.ask("GET", f"{PODS}/{name}")
            if found.tree["status"].get("phase") == wanted:
                return
            await trio.sleep(0.01)


def named(name):
    return {**POD, "metadata": {"name": name}}


@pytest.mark.slow
async def test_kinds_are_taken_up_with_their_first_stage_and_left_with_their_last():
    stages = [*yaml.safe_load_all((FOLDER / "stages.yaml").read_text())]
    options = {"with": ("kwok",), "enable_crds": ("Stage",)}
    async with served(controllers="*", keep=True, **options) as session:
        assert (await session.ask("POST", "/api/v1/nodes", NODE)).code == 201
        assert (await session.ask("POST", PODS, named("early"))).code == 201
        await trio.sleep(0.2)
        await phase(session, "early", "Pending")
        for each in stages:
            assert (await session.ask("POST", STAGES, each)).code == 201
        await phase(session, "early", "Running")  # a pod that was there before
        wrong = {**stages[0], "metadata": {"name": "wrong"}, "spec": {"resourceRef": {}}}
        assert (await session.ask("POST", STAGES, wrong)).code == 422
        unknown = {"resourceRef": {"apiGroup": "none.example/v1", "kind": "None"}}
        wrong = {**stages[0], "metadata": {"name": "none"}, "spec": unknown}
        assert (await session.ask("POST", STAGES, wrong)).code == 201
        assert (await session.ask("POST", PODS, named("second"))).code == 201
        await phase(session, "second", "Running")
        for each in stages:
            gone = await session.ask("DELETE", f"{STAGES}/{each['metadata']['name']}")
            assert gone.code == 200
        assert (await session.ask("POST", PODS, named("late"))).code == 201
        await trio.sleep(0.2)
        await phase(session, "late", "Pending")
        assert (await session.ask("DELETE", f"{STAGES}/none")).code == 200
    serving = session.serving
    recording = serving.recording()
    again = replaying.replayed(serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash


async def test_logs_lead_to_the_files_that_the_objects_of_the_api_name_now(tmp_path):
    file = tmp_path / "app.log"
    file.write_text(line("one"))
    options = {
        "with": ("kwok",),
        "stages": (str(FOLDER / "stages.yaml"),),
        "enable_crds": ("Logs", "ClusterLogs"),
    }
    path = "/apis/kwok.x-k8s.io/v1alpha1"
    async with served(controllers="*", **options) as session:
        assert (await session.ask("POST", "/api/v1/nodes", NODE)).code == 201
        assert (await session.ask("POST", PODS, POD)).code == 201
        text = 'no logs found for container "c" in pod "default/web"'
        assert (await session.ask("GET", f"{PODS}/web/log")).tree["message"] == text
        made = rule("ClusterLogs", logs=[{"logsFile": str(file)}])
        assert (await session.ask("POST", f"{path}/clusterlogs", made)).code == 201
        assert (await session.ask("GET", f"{PODS}/web/log")).body == b"one\n"
        own = {**rule("Logs", logs=[{"containers": ["d"]}]), "metadata": {"name": "web"}}
        assert (await session.ask("POST", f"{path}/namespaces/default/logs", own)).code == 201
        found = await session.ask("GET", f"{PODS}/web/log")
        assert found.tree["message"] == text.replace("no logs", "log target not")
        for each in (f"{path}/namespaces/default/logs/web", f"{path}/clusterlogs/all"):
            assert (await session.ask("DELETE", each)).code == 200
        assert (await session.ask("GET", f"{PODS}/web/log")).tree["message"] == text
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        gone = await session.ask("DELETE", f"{definitions}/clusterlogs.kwok.x-k8s.io")
        assert gone.code == 200
        assert (await session.ask("GET", f"{PODS}/web/log")).tree["message"] == text


@pytest.mark.slow
def test_an_autoscaler_goes_by_usages_that_are_made_in_the_api():
    done = controlplane(
        *("run", FOLDER / "autoscaled.yaml", FOLDER / "metrics.yaml", "--nodes", 0),
        *("--with", "kwok", "--stages", FOLDER / "stages.yaml", "--until", 120),
        *("--enable-crds", "Metric", "--enable-crds", "ClusterResourceUsage", "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["pods"]) == 4


async def test_usages_and_pages_are_those_of_the_api_as_they_are_now():
    path = "/apis/kwok.x-k8s.io/v1alpha1"
    options = {
        "with": ("kwok",),
        "stages": (str(FOLDER / "stages.yaml"),),
        "enable_crds": ("Metric", "ResourceUsage", "ClusterResourceUsage"),
    }

    def used(kind, name, amount):
        spec = {"usages": [{"usage": {"cpu": amount}}]}
        return {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }

    async with served(controllers="*", **options) as session:

        async def cpu():
            found = await session.ask("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
            return [each["containers"][0]["usage"]["cpu"] for each in found.tree["items"]]

        page = "/api/v1/nodes/fake-1/proxy/metrics/cpu"
        assert (
            await session.ask("POST", "/api/v1/nodes", {**NODE, **named_node("fake-1")})
        ).code == 201
        pod = {**POD, "spec": {**POD["spec"], "nodeName": "fake-1"}}
        assert (await session.ask("POST", PODS, pod)).code == 201
        await phase(session, "web", "Running")
        assert await cpu() == ["0"]
        assert (await session.ask("GET", page)).code == 404
        of_all = f"{path}/clusterresourceusages"
        made = used("ClusterResourceUsage", "all", {"value": "100m"})
        assert (await session.ask("POST", of_all, made)).code == 201
        broken = used("ClusterResourceUsage", "a-broken-one", {"expression": "pod.("})
        assert (await session.ask("POST", of_all, broken)).code == 201
        assert await cpu() == ["100m"]
        own = f"{path}/namespaces/default/resourceusages"
        made = used("ResourceUsage", "web", {"value": "250m"})
        assert (await session.ask("POST", own, made)).code == 201
        assert await cpu() == ["250m"]
        metric = {
            **used("Metric", "cpu", {}),
            "spec": {
                "path": "/metrics/cpu",
                "metrics": [{"name": "used", "kind": "gauge", "value": 'node.Usage("cpu")'}],
            },
        }
        metric["metadata"] = {"name": "fake-1"}
        assert (await session.ask("POST", f"{path}/metrics", metric)).code == 201
        assert b"used 0.25" in (await session.ask("GET", page)).body
        assert (await session.ask("DELETE", f"{own}/web")).code == 200
        assert b"used 0.1" in (await session.ask("GET", page)).body
        assert (await session.ask("DELETE", f"{path}/metrics/fake-1")).code == 200
        assert (await session.ask("GET", page)).code == 404


def named_node(name):
    status = {**NODE["status"], "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}]}
    return {"metadata": {**NODE["metadata"], "name": name}, "status": status}
