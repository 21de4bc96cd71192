"""A served session, requests and hang-ups and all, happens again bit for bit from its recording."""

from __future__ import annotations

import json
import os
import stat

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.scenarios.search import replaying
from controlplane.serving.scenario import SCENARIO
from tests.apiserver.http.session import CONFIGMAPS, PODS, config, served, watching

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    },
}
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def use(session) -> None:
    async with watching(session, f"{PODS}?watch=true&allowWatchBookmarks=true") as lines:
        assert (await session.ask("POST", DEPLOYMENTS, DEPLOYMENT)).code == 201
        running = set()
        with trio.fail_after(120):
            while len(running) < 2:
                event = await lines.next()
                if (event["object"].get("status") or {}).get("phase") == "Running":
                    running.add(event["object"]["metadata"]["name"])
    await session.ask("POST", CONFIGMAPS, config("a", x="ü"))
    await session.ask("GET", f"{CONFIGMAPS}/a")
    await session.ask("POST", CONFIGMAPS, b"{broken")
    patched = await session.ask(
        "PATCH",
        f"{DEPLOYMENTS}/web",
        {"spec": {"replicas": 1}},
        Content_Type="application/merge-patch+json",
    )
    assert patched.code == 200
    session.pace.pause()
    await session.ask("DELETE", f"{CONFIGMAPS}/a")
    session.pace.step(25_000_000_000)
    await session.ask("GET", PODS)
    await trio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "strategy"), [(100.0, "fifo"), (MAX, "fifo"), (100.0, "random-walk")]
)
async def test_a_session_replays(tmp_path, speed, strategy):
    async with served(Pacer(speed), nodes=2, keep=True, strategy=strategy) as session:
        await use(session)
    first = session.serving
    first.save(tmp_path)
    assert first.result.verdict == "stopped"
    file = tmp_path / "run.rec"
    recording = replaying.load(file)
    plan = replaying.plan_of_recording(recording, file, SCENARIO)
    again = replaying.replayed(plan, recording)
    again.execute("bare")
    assert again.result.trace_hash == first.result.trace_hash
    assert again.cluster.dump() == first.cluster.dump()
    again.save(tmp_path / "again")
    for name in ("log.jsonl", "objects.yaml"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


async def test_what_came_by_http_is_in_the_log(tmp_path):
    async with served(keep=True) as session:
        await session.ask("POST", CONFIGMAPS, config("a"), User_Agent="kubectl/v1")
    session.serving.save(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    writes = [line for line in lines if line["event"] == "apiserver.write"]
    assert writes[-1]["obj"] == "ConfigMap/default/a"
    assert writes[-1]["data"] == {"by": "kubectl/v1", "code": 201, "verb": "create configmaps"}


async def test_credentials_stay_out_of_the_recording(tmp_path):
    async with served(token="hush-hush", keep=True) as session:
        found = await session.ask("GET", PODS, Authorization="Bearer hush-hush")
        assert found.code == 200
    session.serving.save(tmp_path)
    for name in ("run.rec", "log.jsonl", "objects.yaml"):
        assert b"hush-hush" not in (tmp_path / name).read_bytes()


async def tokens(session) -> list[str]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    assert (await session.ask("POST", accounts, robot)).code == 201
    made = [await session.ask("POST", f"{accounts}/robot/token", body) for _ in range(2)]
    return [each.tree["status"]["token"] for each in made]


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_replay_gives_the_same_tokens_if_the_recording_holds_their_key(tmp_path, recorded):
    async with served(keep=True, record_token_key=recorded) as session:
        given = await tokens(session)
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": given[0]},
        }
        asked = await session.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert asked.tree["status"]["authenticated"] is True
    first = session.serving
    first.save(tmp_path)
    file = tmp_path / "run.rec"
    recording = replaying.load(file)
    assert ("holds the key" if recorded else "leaves out") in replaying.note_of(recording.header)
    secret = session.serving.cluster.options_of_servers()().token_key
    assert (secret.hex().encode() in file.read_bytes()) is recorded
    again = replaying.replayed(replaying.plan_of_recording(recording, file, SCENARIO), recording)
    answers: list[str] = []
    inlet = again.world.inlet()
    enter = inlet._enter

    def overheard(actor, payload, _on_reply):
        enter(actor, payload, lambda answer: answers.append(answer))

    inlet._enter = overheard
    again.execute("bare")
    assert again.result.trace_hash == first.result.trace_hash
    found = [each.tree["status"]["token"] for each in answers[1:3]]
    assert (found == given) is recorded
    assert (answers[3].tree["status"].get("authenticated") is True) is recorded


async def test_what_people_read_of_a_session_holds_no_secret(tmp_path):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"password": "correct horse"},
    }
    encoded = b"Y29ycmVjdCBob3JzZQ=="
    before = os.umask(0)
    try:
        async with served(keep=True) as session:
            made = await session.ask("POST", "/api/v1/namespaces/default/secrets", secret)
            assert made.code == 201
            given = await tokens(session)
            review = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": given[0]},
            }
            await session.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        session.serving.save(tmp_path / "out")
        session.serving.save(tmp_path / "shown", show_secrets=True)
    finally:
        os.umask(before)
    for name in ("log.jsonl", "objects.yaml"):
        raw = (tmp_path / "out" / name).read_bytes()
        for hidden in (b"correct horse", encoded, given[0].encode(), given[1].encode()):
            assert hidden not in raw
    assert b"password: REDACTED" in (tmp_path / "out" / "objects.yaml").read_bytes()
    assert encoded in (tmp_path / "shown" / "objects.yaml").read_bytes()
    recording = (tmp_path / "out" / "run.rec").read_bytes()
    assert b"correct horse" in recording, "a replay needs what was sent"
    assert given[1].encode() not in recording, "and not what was answered"
    for folder in ("out", "shown"):
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / folder).iterdir()]
        assert modes == [0o600] * 3
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


def test_recordings_of_what_was_not_served_hold_no_key():
    assert replaying.note_of({"scenario": {}}) == ""
