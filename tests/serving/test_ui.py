"""The page of a served cluster: its files for everybody, what it shows for who may, and nobody else's pages."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from actors import EventLog, strategies
from actors.inlet import STOP
from actors.pace import MAX, Pacer
from actors.recording import from_bytes
from controlplane.controllers.common.selection import STANDARD
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading, replaying
from controlplane.scheduler.config.load import load
from controlplane.serving import scenario, ui
from controlplane.serving.session import Rim, serve_async
from tests.apiserver.http.session import CONFIGMAPS, Session, config
from tests.apiserver.http.test_impersonation import binding, made, role, user

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = {"Authorization": "Bearer t"}
MODEL = ui.ROOT + "model"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "stringData": {"k": "hush"},
}


@asynccontextmanager
async def looked_at(token: str = "t", **options):
    options.setdefault("controllers", ",".join(STANDARD))
    options.setdefault("nodes", 0)
    plan = plan_of(loading.from_module(scenario.__name__), **options)
    run = Execution(plan, strategies.named("random-walk", 3), log=EventLog())
    stop, ready, told = trio.Event(), trio.Event(), []

    def tell(address):
        told.append(address)
        ready.set()

    pace = Pacer(MAX)
    rim = Rim(tls=False, token=token, ui=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_async, run, rim, pace, tell, stop)
        with trio.fail_after(120):
            await ready.wait()
        yield Session(run, pace, told[0], stop)
        stop.set()


def trees(part):
    """The versions of a part of a model: object, and its body."""
    versions, texts = part["versions"], part["texts"][1]
    start = part["texts"][0]
    names = [texts[each - start] if each >= start else each for each in versions["obj"]]
    return list(zip(names, versions["form"], versions["body"], strict=True))


async def test_the_files_are_for_everybody_and_run_nothing_but_themselves():
    async with looked_at() as session:
        page = await session.ask("GET", ui.ROOT)
        assert page.code == 200
        assert page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert (await session.ask("GET", ui.ROOT.rstrip("/"))).headers["location"] == ui.ROOT
        assert (await session.ask("HEAD", ui.ROOT)).body == b""
        assert (await session.ask("POST", ui.ROOT)).code == 405
        names = {path.rpartition("/")[2] for path in ui.assets()}
        assert {"index.html", "main.js", "live.js", "api.js"} <= names
        for path in ui.assets():
            assert (await session.ask("GET", path)).code in (200, 302)


@pytest.mark.parametrize("page", ["model", "recording", "forks"])
async def test_what_is_shown_needs_a_token_and_a_role(page):
    async with looked_at() as session:
        path = ui.ROOT + page
        assert (await session.ask("GET", path)).code == 403
        assert (await session.ask("GET", path, Authorization="Bearer other")).code == 401
        assert (await session.ask("GET", path, **TOKEN, Impersonate_User="bob")).code == 403
        assert (await session.ask("GET", path, **TOKEN)).code == 200
        assert (await session.ask("DELETE", path, **TOKEN)).code == 405


async def test_a_role_on_the_path_lets_others_look():
    async with looked_at(token="") as session:
        rule = {"nonResourceURLs": [MODEL], "verbs": ["get"]}
        await made(session, "clusterroles", role("ClusterRole", "looker", rule))
        await made(
            session,
            "clusterrolebindings",
            binding("ClusterRoleBinding", "bob", "ClusterRole", "looker", user("bob")),
        )
        assert (await session.ask("GET", MODEL, Impersonate_User="bob")).code == 200
        assert (await session.ask("GET", MODEL, Impersonate_User="eve")).code == 403


async def test_pages_of_other_sites_get_nothing():
    async with looked_at(token="") as session:
        for path in (ui.ROOT, MODEL, ui.ROOT + "recording"):
            assert (await session.ask("GET", path, Origin="http://evil.example")).code == 403
            assert (await session.ask("GET", path, Host="evil.example")).code == 403
        answer = await session.ask(
            "POST", ui.ROOT + "forks", {"step": 1}, Origin="http://evil.example"
        )
        assert answer.code == 403


async def test_a_part_has_what_came_after_the_part_before():
    async with looked_at() as session:
        first = (await session.ask("GET", MODEL, **TOKEN)).tree
        assert (await session.ask("POST", CONFIGMAPS, config("a", k="v"), **TOKEN)).code == 201
        then = (await session.ask("GET", f"{MODEL}?since={first['step']}", **TOKEN)).tree
        ((_, form, body),) = [each for each in trees(then) if each[0] == "ConfigMap/default/a"]
        assert form == 0
        assert body["data"] == {"k": "v"}
        steps = then["events"]["step"]
        assert steps[0] > first["step"]  # the first is told from 0
        assert sum(steps) == then["step"]
        last = (await session.ask("GET", f"{MODEL}?since={then['step']}", **TOKEN)).tree
        assert not last["events"]["step"] or last["events"]["step"][0] > then["step"]
        assert (await session.ask("GET", f"{MODEL}?since=x", **TOKEN)).code == 400


async def test_looking_is_no_part_of_the_world():
    async with looked_at() as session:
        for page in ("model", "recording", "forks", "model"):
            assert (await session.ask("GET", ui.ROOT + page, **TOKEN)).code == 200
        raw = (await session.ask("GET", ui.ROOT + "recording", **TOKEN)).body
    assert [each.actor for each in from_bytes(raw, "recording").inputs] == [STOP]


async def test_the_cpus_of_a_node_are_shown():
    options = {"nodes": 1, "kubelet_config": str(EXAMPLES / "cpu-manager-kubelet.yaml")}
    async with looked_at(**options) as session:
        with trio.fail_after(120):
            while not (cpus := (await session.ask("GET", MODEL, **TOKEN)).tree["cpus"])["step"]:
                await trio.sleep(0.05)
        assert cpus["body"][0]["policies"][0] == "static"
        assert cpus["body"][0]["numa"]


async def test_secrets_are_not_shown():
    async with looked_at() as session:
        made_ = await session.ask(
            "POST", CONFIGMAPS.replace("configmaps", "secrets"), SECRET, **TOKEN
        )
        assert made_.code == 201
        told = (await session.ask("GET", MODEL, **TOKEN)).body
        assert b"Secret/default/s" in told
        assert b"hush" not in told
        assert b"aHVzaA" not in told


async def test_the_recording_of_a_session_that_goes_on_replays_to_there():
    async with looked_at() as session:
        for name in "abc":
            assert (await session.ask("POST", CONFIGMAPS, config(name), **TOKEN)).code == 201
        raw = (await session.ask("GET", ui.ROOT + "recording", **TOKEN)).body
    recording = from_bytes(raw, "recording")
    again = replaying.replayed(replaying.plan_of_recording(recording, None), recording)
    result = again.execute("bare")
    assert (result.verdict, result.reason) == ("stopped", "recorded so far")
    assert result.trace_hash == recording.trace_hash
    kept = again.cluster.objects("/registry/configmaps/")
    assert {each.tree["metadata"]["name"] for each in kept} >= {"a", "b", "c"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"kind: Pod\nmetadata: {name: a}", "text:1: Pod a: apiVersion: required"),
        (b"a: [", "broken YAML"),
        (b"\xff", "not UTF-8"),
        (b"[" * 5000, "nested too deeply"),
    ],
)
async def test_text_that_says_no_objects_is_refused_in_a_line(body, said):
    async with looked_at() as session:
        answer = await session.ask("POST", ui.ROOT + "json", body, **TOKEN)
        assert answer.code == 400
        assert said in answer.tree["message"]


async def test_objects_of_yaml_come_back_as_json():
    async with looked_at() as session:
        text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n"
        told = (await session.ask("POST", ui.ROOT + "json", text, **TOKEN)).tree
        assert [each["kind"] for each in told] == ["Pod", "Node"]
        assert (await session.ask("POST", ui.ROOT + "json", b"#" * 200_000, **TOKEN)).code == 413


async def test_the_scheduler_s_configuration_can_be_loaded_again():
    async with looked_at() as session:
        text = (await session.ask("GET", ui.ROOT + "scheduler", **TOKEN)).body.decode()
        assert load(text) == load(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        )
        assert (await session.ask("POST", ui.ROOT + "scheduler", b"", **TOKEN)).code == 405


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"step": -1}, "step -1: the session has steps 1 to"),
        ({"step": True}, "step: True is of another type"),
        ({"strategy": "luck"}, "strategy: expected one of"),
        ({"seconds": -1}, "seconds: expected"),
        ({"seed": 1 << 70}, "seed: expected"),
        ({"stop": 1}, "stop: unknown; known: step"),
        ([], "the body is no object"),
    ],
)
async def test_a_fork_that_cannot_be_is_refused_in_a_line(asked, said):
    async with looked_at() as session:
        answer = await session.ask("POST", ui.ROOT + "forks", json.dumps(asked).encode(), **TOKEN)
        assert answer.code == 400
        assert said in answer.tree["message"]
        assert (await session.ask("GET", ui.ROOT + "forks", **TOKEN)).tree == []
        assert (await session.ask("GET", ui.ROOT + "forks?id=1", **TOKEN)).code == 404


@pytest.mark.slow
async def test_a_fork_is_compared_with_the_session_that_it_left():
    async with looked_at() as session:
        assert (await session.ask("POST", CONFIGMAPS, config("a"), **TOKEN)).code == 201
        step = session.serving.world.steps
        added = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: only-here}\n"
        began = await session.ask("POST", ui.ROOT + "forks", {"step": step, "add": added}, **TOKEN)
        assert began.code == 202
        with trio.fail_after(60):
            while (fork := (await session.ask("GET", ui.ROOT + "forks", **TOKEN)).tree[0])[
                "state"
            ] == "running":
                await trio.sleep(0.2)
        assert fork["state"] == "done", fork
        told = (await session.ask("GET", ui.ROOT + "forks?id=1", **TOKEN)).tree
        here, there = ({each[0] for each in trees(run)} for run in told["runs"])
        assert there - here >= {"ConfigMap/default/only-here"}
        assert told["difference"]["step"] >= step
        assert (await session.ask("GET", f"{CONFIGMAPS}/only-here", **TOKEN)).code == 404
