"""The HTTP API of kube-scheduler-simulator beside a served cluster; the recording replays with it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.scenarios.inputs.simulator_files import exported, is_export
from controlplane.scenarios.search import replaying
from tests.apiserver.http.session import PODS, served, watching
from tests.serving.test_nodes import until

CONFIG = "/api/v1/schedulerconfiguration"
EXPORT = "/api/v1/export"
IMPORT = "/api/v1/import"
RESET = "/api/v1/reset"
STREAM = "/api/v1/listwatchresources"
ORIGIN = "http://localhost:3000"
ANNOTATION = "kube-scheduler-simulator.sigs.k8s.io/"


@asynccontextmanager
async def simulator(**options):
    options = {"nodes": 2, "controllers": "*", "simulator": True, **options}
    async with served(Pacer(MAX), **options) as session:
        yield session


def pod(name, cpu="1", **spec):
    resources = {"requests": {"cpu": cpu}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    metadata = {"name": name, "namespace": "default"}
    spec = {"containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def scheduled(session, name):
    """The pod once the scheduler has written the results of the attempt that chose a node."""

    def told(answer):
        notes = answer.tree["metadata"].get("annotations") or {}
        return notes.get(ANNOTATION + "selected-node")

    return (await until(session, f"{PODS}/{name}", told)).tree


async def results(session, name):
    notes = (await scheduled(session, name))["metadata"]["annotations"]
    return {key.removeprefix(ANNOTATION): text for key, text in notes.items()}


async def test_the_results_of_the_scheduler_stand_on_the_pod():
    async with simulator() as session:
        await session.ask("POST", PODS, pod("p"))
        found = await results(session, "p")
        node = found["selected-node"]
        assert node in ("node-1", "node-2")
        assert json.loads(found["filter-result"])[node]["NodeResourcesFit"] == "passed"
        assert set(json.loads(found["finalscore-result"])) == {"node-1", "node-2"}
        *_, attempt = json.loads(found["result-history"])
        assert attempt[ANNOTATION + "selected-node"] == node


async def test_a_posted_configuration_restarts_the_scheduler_and_a_bad_one_changes_nothing():
    async with simulator(keep=True) as session:
        before = (await session.ask("GET", CONFIG)).tree
        (profile,) = before["profiles"]
        assert profile["schedulerName"] == "default-scheduler"
        off = {"score": {"disabled": [{"name": "*"}]}, "filter": {"disabled": [{"name": "*"}]}}
        wanted = {**before, "parallelism": 3, "profiles": [{"plugins": off}]}
        answer = await session.ask("POST", CONFIG, wanted)
        assert (answer.code, answer.body) == (202, b"")
        now = (await session.ask("GET", CONFIG)).tree
        assert now["parallelism"] == 16  # only profiles and extenders are taken
        assert now["profiles"][0]["plugins"]["score"] == off["score"]
        await session.ask("POST", PODS, pod("big", cpu="1000"))
        found = await results(session, "big")
        assert found["selected-node"]
        assert json.loads(found["finalscore-result"]) == {}
        for wrong, told in (
            ({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "No"}]}}}]}, "No"),
            ({"profiles": 3}, "profiles"),
            ({"extenders": [{"urlPrefix": "http://x", "filterVerb": "f"}]}, "extenders"),
            ([], "the body"),
            (b"{", "not JSON"),
        ):
            answer = await session.ask("POST", CONFIG, wrong)
            assert (answer.code, told in answer.tree["message"]) == (400, True), answer.body
        assert (await session.ask("GET", CONFIG)).tree == now
    first = session.serving
    again = replaying.replayed(first.plan, first.recording())
    again.execute("bare")
    assert again.result.trace_hash == first.result.trace_hash
    assert again.cluster.dump() == first.cluster.dump()


async def test_a_session_begins_with_the_configuration_of_its_files(tmp_path):
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = {**head, "profiles": [{"schedulerName": "mine"}]}
    lists = {**exported({}, config), "namespaces": [{"metadata": {"name": "shop"}}]}
    path = tmp_path / "export.json"
    path.write_text(json.dumps(lists))
    given = tmp_path / "config.yaml"
    given.write_text(json.dumps({**head, "profiles": [{"schedulerName": "given"}]}))
    for options, name in (({}, "mine"), ({"scheduler_config": str(given)}, "given")):
        async with simulator(files=(str(path),), **options) as session:
            found = (await session.ask("GET", CONFIG)).tree
            assert [each["schedulerName"] for each in found["profiles"]] == [name]
            await session.ask("POST", CONFIG, {"profiles": []})
            assert (await session.ask("PUT", RESET)).code == 202
            assert (await session.ask("GET", CONFIG)).tree == found
            assert (await session.ask("GET", "/api/v1/namespaces/shop")).code == 200


async def test_all_of_several_schedulers_restart():
    async with simulator(schedulers=2) as session:
        off = {"filter": {"disabled": [{"name": "*"}]}}
        answer = await session.ask("POST", CONFIG, {"profiles": [{"plugins": off}]})
        assert answer.code == 202
        await session.ask("POST", PODS, pod("big", cpu="1000"))
        assert (await results(session, "big"))["selected-node"]


async def test_without_a_scheduler_the_page_is_told_so():
    async with simulator(lacking="scheduler") as session:
        for method in ("GET", "POST"):
            answer = await session.ask(method, CONFIG, {})
            assert (answer.code, "external scheduler" in answer.tree) == (400, True)


async def test_an_export_is_imported_into_another_cluster():
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    high = {"metadata": {"name": "high"}, "value": 5}
    claim = {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    async with simulator() as session:
        await session.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await session.ask("POST", classes, high)
        await session.ask("POST", "/api/v1/namespaces/shop/persistentvolumeclaims", claim)
        await session.ask("POST", PODS, pod("p", priorityClassName="high"))
        node = (await results(session, "p"))["selected-node"]
        answer = await session.ask("GET", EXPORT)
        file = answer.tree
    assert is_export(file)
    assert [each["metadata"]["name"] for each in file["namespaces"]] == ["shop"]
    assert [each["metadata"]["name"] for each in file["priorityClasses"]] == ["high"]
    assert [each["metadata"]["name"] for each in file["nodes"]] == ["node-1", "node-2"]
    assert file["pvs"] is None
    assert file["schedulerConfig"]["profiles"][0]["schedulerName"] == "default-scheduler"
    assert "kind" not in file["pods"][0]
    file["pvs"] = [
        {
            "metadata": {"name": "v", "uid": "old"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "hostPath": {"path": "/x"},
                "claimRef": {"namespace": "shop", "name": "c", "uid": "old"},
            },
            "status": {"phase": "Bound"},
        }
    ]
    file["schedulerConfig"]["percentageOfNodesToScore"] = 50
    async with simulator(nodes=0, keep=True) as session:
        answer = await session.ask("POST", IMPORT, file)
        assert (answer.code, answer.body) == (200, b"")
        found = await until(
            session, f"{PODS}/p", lambda answer: answer.tree["status"]["phase"] == "Running"
        )
        assert (found.tree["spec"]["nodeName"], found.tree["spec"]["priority"]) == (node, 5)
        shop = "/api/v1/namespaces/shop/persistentvolumeclaims/c"
        uid = (await session.ask("GET", shop)).tree["metadata"]["uid"]
        volume = (await session.ask("GET", "/api/v1/persistentvolumes/v")).tree
        assert volume["spec"]["claimRef"]["uid"] == uid
        config = (await session.ask("GET", CONFIG)).tree
        assert config["percentageOfNodesToScore"] == 50
        again = (await session.ask("GET", EXPORT)).tree
        assert (await session.ask("POST", IMPORT, again)).code == 200
    first = session.serving
    replayed = replaying.replayed(first.plan, first.recording())
    replayed.execute("bare")
    assert replayed.result.trace_hash == first.result.trace_hash


async def test_a_bad_import_is_refused():
    async with simulator() as session:
        head = {"schedulerConfig": {"profiles": [{"schedulerName": ""}]}}
        for body, code, told in (
            (b"{", 400, "not JSON"),
            ({"pods": {}}, 400, "pods: expected a list"),
            ({"nodes": [{"metadata": {}}]}, 400, "nodes[0]: metadata.name: required"),
            ({**head, "namespaces": [{"metadata": {"name": "x"}}]}, 400, "schedulerConfig"),
            ({"pods": [{"metadata": {"name": "p"}}]}, 500, "apply Pod: "),
        ):
            answer = await session.ask("POST", IMPORT, body)
            assert (answer.code, told in answer.tree["message"]) == (code, True), answer.body
        assert (await session.ask("GET", "/api/v1/namespaces/x")).code == 404
        assert (await session.ask("POST", EXPORT)).code == 405
        refused = await session.ask("GET", EXPORT, Impersonate_User="bob")
        assert refused.code == 403


@pytest.mark.slow
async def test_a_reset_restores_objects_and_configuration():
    async with simulator(keep=True) as session:
        before = (await session.ask("GET", CONFIG)).tree
        await session.ask("POST", CONFIG, {"profiles": [{"schedulerName": "other"}]})
        await session.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await session.ask("POST", PODS, pod("p"))
        answer = await session.ask("PUT", RESET, {})
        assert (answer.code, answer.body) == (202, b"")
        assert (await session.ask("GET", CONFIG)).tree == before
        file = (await session.ask("GET", EXPORT)).tree
        assert (file["pods"], file["namespaces"], len(file["nodes"])) == (None, [], 2)
        await session.ask("POST", PODS, pod("q"))
        assert (await results(session, "q"))["selected-node"]
    first = session.serving
    again = replaying.replayed(first.plan, first.recording())
    again.execute("bare")
    assert again.result.trace_hash == first.result.trace_hash


async def test_the_stream_lists_first_and_then_tells_of_changes():
    async with simulator() as session, watching(session, STREAM) as lines:
        assert b"Content-Type: application/json" in lines.head
        listed = {}
        while "system-node-critical" not in listed.get("priorityclasses", ()):
            event = await lines.next()
            assert event["EventType"] == "ADDED"
            assert "kind" not in event["Obj"]
            listed.setdefault(event["Kind"], []).append(event["Obj"]["metadata"]["name"])
        assert listed["nodes"] == ["node-1", "node-2"]
        await session.ask("POST", PODS, pod("p"))
        await session.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
        seen = []
        while not seen or seen[-1] != "DELETED":
            event = await lines.next()
            if event["Kind"] == "pods":
                seen.append(event["EventType"])
        assert seen[0] == "ADDED"


async def test_a_stream_from_a_version_begins_with_what_came_after():
    async with simulator() as session:
        version = (await session.ask("GET", "/api/v1/pods")).tree["metadata"]["resourceVersion"]
        await session.ask("POST", PODS, pod("p"))
        names = ("pods", "nodes", "pvs", "pvcs", "scs", "pcs", "namespace")
        query = "&".join(f"{name}LastResourceVersion={version}" for name in names)
        async with watching(session, f"{STREAM}?{query}") as lines:
            while (event := await lines.next())["Kind"] != "pods":
                assert event["Kind"] == "nodes"
            assert (event["EventType"], event["Obj"]["metadata"]["name"]) == ("ADDED", "p")
        async with watching(session, f"{STREAM}?podsLastResourceVersion=x&{query}") as lines:
            with trio.fail_after(120):
                while await lines.next() is not None:
                    pass  # the error about the version ends the stream


@pytest.mark.parametrize("path", [CONFIG, PODS])
async def test_pages_of_an_allowed_origin_may_ask(path):
    async with simulator(origins=(ORIGIN,)) as session:
        asked = {
            "Origin": ORIGIN,
            "Access_Control_Request_Method": "POST",
            "Access_Control_Request_Headers": "content-type",
        }
        answer = await session.ask("OPTIONS", path, **asked)
        assert answer.code == 204
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["access-control-allow-credentials"] == "true"
        assert "PATCH" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == "content-type"
        answer = await session.ask("GET", path, Origin=ORIGIN)
        assert (answer.code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
        refused = await session.ask("GET", path, Origin="http://evil.example")
        assert refused.code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_the_page_creates_and_applies_objects_in_its_own_way():
    async with simulator() as session:
        generated = {**pod("p"), "metadata": {"generateName": "p-", "namespace": "default"}}
        manager = "fieldManager=simulator&force=true"
        yaml = {"Content_Type": "application/yaml"}
        answer = await session.ask("POST", f"{PODS}?{manager}", generated, **yaml)
        assert answer.code == 201, answer.body
        made = answer.tree
        del made["metadata"]["managedFields"]
        made["metadata"]["labels"] = {"a": "b"}
        del made["metadata"]["resourceVersion"]
        apply = {"Content_Type": "application/apply-patch+yaml"}
        path = f"{PODS}/{made['metadata']['name']}?{manager}"
        answer = await session.ask("PATCH", path, made, **apply)
        assert (answer.code, answer.tree["metadata"]["labels"]) == (200, {"a": "b"}), answer.body
        class_ = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/high?{manager}"
        body = {**class_, "apiVersion": "scheduling.k8s.io/v1"}
        assert (await session.ask("PATCH", path, body, **apply)).code == 201


async def test_other_sessions_have_no_simulator():
    async with served(Pacer(MAX), nodes=1) as session:
        assert (await session.ask("GET", CONFIG)).code == 404
        assert not session.serving.cluster.config.explain_scheduling
