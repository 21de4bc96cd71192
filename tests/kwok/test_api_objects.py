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


def test_stages_of_files_and_of_the_api_are_not_mixed():
    refused = controlplane("run", FOLDER / "web.yaml", *ENABLED, "--stages", FOLDER / "stages.yaml")
    assert refused.returncode == 2
    told = "stages.yaml: Stage: --enable-crds reads objects of this kind from the API"
    assert told in refused.stderr
    unknown = controlplane("run", FOLDER / "web.yaml", *ENABLED, "--enable-crds", "Metric")
    assert unknown.returncode == 2
    assert "--enable-crds: 'Metric': expected Stage, Logs, ClusterLogs" in unknown.stderr
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
