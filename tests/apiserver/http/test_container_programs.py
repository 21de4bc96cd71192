"""Containers whose command the emulated shell knows: output, exit status, a client at their input, and a replay."""

from __future__ import annotations

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.scenarios.search import replaying
from tests.apiserver.http.session import CONFIGMAPS, PODS, config, served
from tests.serving.test_nodes import until

pytest.importorskip("wsproto")
from tests.apiserver.http.exec_client import connected, run


def pod(name, *command, volumes=(), **container):
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    inner = {"name": "c", "image": "busybox", "volumeMounts": mounts, **container}
    if command:
        inner["command"] = list(command)
    spec = {"restartPolicy": "Never", "containers": [inner], "volumes": list(volumes)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def make(session, tree, path=PODS):
    with trio.fail_after(120):
        while (answer := await session.ask("POST", path, tree)).code != 201:
            assert answer.code in (403, 404), answer.body  # its account is on the way
            await trio.sleep(0.01)


def is_in(*phases):
    return lambda answer: answer.tree["status"]["phase"] in phases


def state(answer, part="containerStatuses"):
    return answer.tree["status"][part][0]["state"]


def same_again(session):
    recording = session.serving.recording()
    again = replaying.replayed(session.serving.plan, recording)
    again.execute("bare")
    assert again.result.trace_hash == session.serving.result.trace_hash
    return again


async def test_a_known_command_runs_to_its_exit_status_and_logs_its_output():
    async with served(Pacer(MAX), nodes=1, controllers="*") as session:
        await make(session, config("settings", colour="red"), CONFIGMAPS)
        env = [
            {"name": "N", "value": "2"},
            {
                "name": "COLOUR",
                "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}},
            },
        ]
        script = "echo $COLOUR $(A)-$N; sleep 30; if [ $N -ge 2 ]; then exit 3; fi"
        tree = pod("job", "sh", "-c", script.replace("$(A)", "$(N)"), env=env)
        await make(session, tree)
        ended = await until(session, f"{PODS}/job", is_in("Failed"))
        assert state(ended)["terminated"]["exitCode"] == 3
        assert (await session.ask("GET", f"{PODS}/job/log")).body == b"red 2-2\n"
        await make(session, pod("quick", args=["echo", "hi"]))
        await until(session, f"{PODS}/quick", is_in("Succeeded"))
        assert (await session.ask("GET", f"{PODS}/quick/log")).body == b"hi\n"
        await make(session, pod("server", "serve-forever", "--port=1"))
        await until(session, f"{PODS}/server", is_in("Running"))
        described = pod("described", "echo", "no")
        described["metadata"]["annotations"] = {
            "emulate.controlplane/exit-codes": "7",
            "emulate.controlplane/run-seconds": "1",
        }
        await make(session, described)
        ended = await until(session, f"{PODS}/described", is_in("Failed"))
        assert state(ended)["terminated"]["exitCode"] == 7


async def test_a_shell_lives_until_its_client_leaves_it_and_the_session_replays():
    async with served(Pacer(MAX), nodes=1, controllers="*", keep=True) as session:
        await make(session, pod("sh", stdin=True, tty=True))
        await until(session, f"{PODS}/sh", is_in("Running"))
        path = f"{PODS}/sh/attach?stdin=true&stdout=true&tty=true"
        told = await connected(session, path, b"\0echo out; echo kept > /tmp/f\r", b"\0exit 5\r")
        assert b"out\r\n" in b"".join(each[1:] for each in told)
        ended = await until(session, f"{PODS}/sh", is_in("Failed"))
        assert state(ended)["terminated"]["exitCode"] == 5
        assert (await session.ask("GET", f"{PODS}/sh/log")).body == b"out\n"
        await make(session, pod("cat", "cat", stdin=True))
        await until(session, f"{PODS}/cat", is_in("Running"))
        path = f"{PODS}/cat/attach?stdin=true&stdout=true"
        told = await connected(session, path, b"\0some text\n", b"\xff\0")
        assert b"\x01some text\n" in told
        await until(session, f"{PODS}/cat", is_in("Succeeded"))
    same_again(session)


async def test_an_ephemeral_container_is_a_shell_until_exit():
    async with served(Pacer(MAX), nodes=1, controllers="*") as session:
        await make(session, pod("web"))
        await until(session, f"{PODS}/web", is_in("Running"))
        added = {
            "name": "debugger",
            "image": "busybox",
            "command": ["sh"],
            "stdin": True,
            "tty": True,
        }
        patched = await session.ask(
            "PATCH",
            f"{PODS}/web/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [added]}},
            Content_Type="application/strategic-merge-patch+json",
        )
        assert patched.code == 200, patched.body

        def runs(answer):
            found = answer.tree["status"].get("ephemeralContainerStatuses")
            return bool(found) and "running" in found[0]["state"]

        await until(session, f"{PODS}/web", runs)
        path = f"{PODS}/web/attach?container=debugger&stdin=true&stdout=true&tty=true"
        told = await connected(session, path, b"\0ps\r", b"\0exit 3\r")
        assert b"1 root      0:00 sh" in b"".join(each[1:] for each in told)

        def left(answer):
            return "terminated" in state(answer, "ephemeralContainerStatuses")

        ended = await until(session, f"{PODS}/web", left)
        assert state(ended, "ephemeralContainerStatuses")["terminated"]["exitCode"] == 3
        assert ended.tree["status"]["phase"] == "Running"


async def test_what_is_written_to_volumes_is_read_by_other_containers_and_by_programs():
    volumes = ({"name": "shared", "hostPath": {"path": "/srv"}}, {"name": "own", "emptyDir": {}})
    async with served(Pacer(MAX), nodes=1, controllers="*", keep=True) as session:
        await make(session, pod("writer", "sleep", "infinity", volumes=volumes))
        await until(session, f"{PODS}/writer", is_in("Running"))
        script = "echo one > /shared/f; echo two > /own/f; mkdir -p /own/d; ls /own; ps"
        told = await run(session, "writer", script)
        assert told.startswith("d\nf\n")
        assert "1 root      0:00 sleep infinity" in told
        assert await run(session, "writer", "cat /shared/f /own/f") == "one\ntwo\n"
        await make(session, pod("reader", "sh", "-c", "cat /shared/f; ls /own", volumes=volumes))
        await until(session, f"{PODS}/reader", is_in("Succeeded"))
        assert (await session.ask("GET", f"{PODS}/reader/log")).body == b"one\n"
    again = same_again(session)
    assert again.cluster.disks.places.keys() == session.serving.cluster.disks.places.keys()
    assert again.cluster.disks.content("node/node-1/srv") == {"f": b"one\n"}
