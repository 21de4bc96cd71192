"""kubectl logs, exec, attach and port-forward of pods on fake nodes: files, programs and addresses of the machine."""

from __future__ import annotations

import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
import trio
import yaml

from controlplane.scenarios.search import replaying
from tests.apiserver.http import http2_client
from tests.apiserver.http.exec_client import asked, connected
from tests.apiserver.http.session import PODS, more, request, served
from tests.apiserver.http.test_port_forward import Client

STAGES = Path(__file__).parents[3] / "examples" / "kwok" / "stages.yaml"
SIZE = {"cpu": "4", "memory": "8Gi", "pods": "20"}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    "status": {"capacity": SIZE, "allocatable": SIZE},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"nodeName": "fake", "containers": [{"name": "c", "image": "i"}]},
}


def rule(kind, **spec):
    meta = {"name": "all"}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": kind,
        "metadata": meta,
        "spec": spec,
    }


@asynccontextmanager
async def web(tmp_path, *rules, **options):
    """A served cluster with a pod on a fake node, and these rules."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump_all(rules))
    options |= {"with": ("kwok",), "stages": (str(STAGES), str(path))}
    async with served(controllers="*", **options) as session:
        assert (await session.ask("POST", "/api/v1/nodes", NODE)).code == 201
        assert (await session.ask("POST", PODS, POD)).code == 201
        yield session


def line(text, stream="stdout"):
    return f"2026-01-01T00:00:01Z {stream} F {text}\n"


def path_of(sub, *words, **flags):
    query = "&".join(
        [f"{name}={value}" for name, value in flags.items()]
        + [f"command={quote(word)}" for word in words]
    )
    return f"{PODS}/web/{sub}?{query}"


async def ran(session, *words, said=(), **flags):
    """Standard output, standard error and status of a command."""
    told = await connected(session, path_of("exec", *words, stdout=1, **flags), *said)
    out, err, status = (
        b"".join(each[1:] for each in told if each[0] == channel) for channel in (1, 2, 3)
    )
    return out.decode(), err.decode(), json.loads(status)


# -- logs ------------------------------------------------------------------------------------------


async def test_a_log_is_read_when_it_is_asked_for(tmp_path):
    file = tmp_path / "app.log"
    before = tmp_path / "before.log"
    entry = {"logsFile": str(file), "previousLogsFile": str(before)}
    async with web(tmp_path, rule("ClusterLogs", logs=[entry])) as session:
        absent = await session.ask("GET", f"{PODS}/web/log")
        assert (absent.code, absent.tree["reason"]) == (400, "BadRequest")
        assert "no such file or directory" in absent.tree["message"]
        file.write_text(line("one") + line("two", "stderr"))
        before.write_text(line("old"))
        found = await session.ask("GET", f"{PODS}/web/log")
        assert (found.code, found.body) == (200, b"one\ntwo\n")
        assert found.headers["content-type"] == "text/plain"
        tail = await session.ask("GET", f"{PODS}/web/log?tailLines=1&timestamps=true")
        assert tail.body == b"2026-01-01T00:00:01.000000000Z two\n"
        assert (await session.ask("GET", f"{PODS}/web/log?previous=true")).body == b"old\n"
        late = await session.ask("GET", f"{PODS}/web/log?sinceTime=2026-02-01T00:00:00Z")
        assert (late.code, late.body) == (200, b"")
        wrong = await session.ask("GET", f"{PODS}/web/log?tailLines=-1")
        assert wrong.code == 422


async def test_a_log_is_sent_over_http2(tmp_path):
    file = tmp_path / "app.log"
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rule("ClusterLogs", logs=[{"logsFile": str(file)}])))
    options = {"with": ("kwok",), "stages": (str(STAGES), str(path))}
    async with (
        served(controllers="*", tls=True, **options) as session,
        http2_client.connected(session) as client,
    ):
        for place, tree in (("/api/v1/nodes", NODE), (PODS, POD)):
            made = await client.ask("POST", place, tree)
            assert made.code == 201
        absent = await client.ask("GET", f"{PODS}/web/log")
        assert (absent.code, absent.tree["reason"]) == (400, "BadRequest")
        file.write_text(line("one"))
        found = await client.ask("GET", f"{PODS}/web/log")
        assert (found.code, found.headers["content-type"]) == (200, "text/plain")
        assert found.body == b"one\n"
        assert (await client.ask("GET", f"{PODS}/web/log?tailLines=1")).body == b"one\n"


async def test_a_followed_log_goes_on_until_the_client_leaves(tmp_path):
    file = tmp_path / "app.log"
    file.write_text("")
    rules = rule("ClusterLogs", logs=[{"logsFile": str(file)}])
    async with web(tmp_path, rules) as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(request("GET", f"{PODS}/web/log?follow=true"))
            raw = b""
            while b"\r\n\r\n" not in raw:
                raw += await more(stream)
            assert raw.startswith(b"HTTP/1.1 200"), raw
            file.write_text(line("late"))
            while b"late\n" not in raw:
                raw += await more(stream)
        assert (await session.ask("GET", f"{PODS}/web/log")).body == b"late\n"


async def test_a_pod_that_no_object_knows_has_no_log_and_other_nodes_keep_theirs(tmp_path):
    rules = rule("ClusterLogs", selector={"matchNames": ["another"]}, logs=[{"logsFile": "x"}])
    async with web(tmp_path, rules, nodes=1) as session:
        found = await session.ask("GET", f"{PODS}/web/log")
        text = 'no logs found for container "c" in pod "default/web"'
        assert (found.code, found.tree["message"]) == (400, text)
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-0"}
        nodes = (await session.ask("GET", "/api/v1/nodes")).tree["items"]
        spec["nodeName"] = next(
            each["metadata"]["name"] for each in nodes if each["metadata"]["name"] != "fake"
        )
        real = {**POD, "metadata": {"name": "real"}, "spec": spec}
        assert (await session.ask("POST", PODS, real)).code == 201
        with trio.fail_after(60):
            while (found := await session.ask("GET", f"{PODS}/real/log")).code != 200:
                assert "waiting to start" in found.tree["message"]
        assert b"no logs found" not in found.body


# -- exec ------------------------------------------------------------------------------------------


async def test_a_command_runs_on_the_machine_with_directory_and_environment(tmp_path):
    local = {"workDir": str(tmp_path), "envs": [{"name": "HELLO", "value": "world"}]}
    async with web(tmp_path, rule("ClusterExec", execs=[{"local": local}])) as session:
        script = 'echo "$HELLO"; pwd; echo wrong >&2'
        out, err, status = await ran(session, "sh", "-c", script, stderr=1)
        assert out.split() == ["world", str(tmp_path)]
        assert (err, status["status"]) == ("wrong\n", "Success")
        out, _, status = await ran(
            session, "sort", stdin=1, stderr=1, said=[b"\0b\n", b"\0a\n", b"\xff\0"]
        )
        assert (out, status["status"]) == ("a\nb\n", "Success")


async def test_a_failed_command_is_told_as_the_server_of_kwok_tells_it(tmp_path):
    async with web(tmp_path, rule("ClusterExec", execs=[{"local": {}}])) as session:
        before = "Internal error occurred: error executing command in container: "
        for words, told in (
            (["sh", "-c", "exit 3"], "cmd wait: sh -c exit 3: exit status 3"),
            (["sh", "-c", "kill -9 $$"], "cmd wait: sh -c kill -9 $$: signal: killed"),
            (
                ["no-such-program", "x"],
                'cmd start: no-such-program x: exec: "no-such-program": executable file not found in $PATH',
            ),
            (
                ["/no/such", "x"],
                "cmd start: /no/such x: fork/exec /no/such: no such file or directory",
            ),
        ):
            _, _, status = await ran(session, *words, stderr=1)
            assert status["message"] == before + told
            assert (status["code"], status["reason"]) == (500, "InternalError")
        _, _, status = await ran(session, "sh", "-c", "echo why >&2; exit 1")
        assert status["message"].endswith("exit status 1\nwhy\n")


@pytest.mark.parametrize(
    ("execs", "told"),
    [
        ([{}], "not set local exec"),
        ([{"containers": ["d"]}], 'no exec found for container "c" in pod "default/web"'),
        (
            [{"local": {"workDir": "/no/such"}}],
            "cmd start: pwd : chdir /no/such: no such file or directory",
        ),
        (
            [{"local": {"securityContext": {"runAsUser": 4_123_456}}}],
            "cmd set user: pwd : user: unknown userid 4123456",
        ),
    ],
)
async def test_what_cannot_be_started_is_told_in_the_error_channel(execs, told, tmp_path):
    async with web(tmp_path, rule("ClusterExec", execs=execs)) as session:
        _, _, status = await ran(session, "pwd", stderr=1)
        assert status["message"].endswith(f"error executing command in container: {told}")


async def test_a_program_ends_with_its_client(tmp_path):
    pid_file = tmp_path / "pid"
    async with web(tmp_path, rule("ClusterExec", execs=[{"local": {}}])) as session:
        script = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 1000 & wait"
        stream = await session.connect()
        async with stream:
            await stream.send_all(asked(path_of("exec", "sh", "-c", script, stdout=1)))
            with trio.fail_after(60):
                while not pid_file.exists():
                    await trio.sleep(0.01)
        pid = int(pid_file.read_text())
        with trio.fail_after(60):
            while _lives(pid):
                await trio.sleep(0.01)


def _lives(pid):
    """Return whether a process runs; one that only waits to be reaped does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="terminals are POSIX's")
async def test_a_terminal_has_the_size_that_the_client_tells(tmp_path):
    async with web(tmp_path, rule("ClusterExec", execs=[{"local": {}}])) as session:
        resize = b"\x04" + json.dumps({"Width": 91, "Height": 17}).encode()
        script = "while true; do s=$(stty size); [ \"$s\" = '17 91' ] && break; sleep 0.02; done; test -t 1 && echo $s"
        out, _, status = await ran(
            session, "sh", "-c", script, stdin=1, tty=1, said=[resize, b"\x04{", b"\x04[]"]
        )
        assert (out, status["status"]) == ("17 91\r\n", "Success")


async def test_without_objects_of_the_topic_the_emulated_shell_answers(tmp_path):
    async with web(tmp_path, rule("ClusterLogs", logs=[])) as session:
        with trio.fail_after(60):
            while (await session.ask("GET", f"{PODS}/web")).tree["status"]["phase"] != "Running":
                await trio.sleep(0.01)
        out, _, status = await ran(session, "hostname", stderr=1)
        assert (out, status["status"]) == ("web\n", "Success")


async def test_what_clients_reach_is_no_part_of_the_recording(tmp_path):
    rules = rule("ClusterExec", execs=[{"local": {}}])
    async with web(tmp_path, rules, keep=True) as session:
        mark = tmp_path / "mark"
        assert (await ran(session, "touch", str(mark)))[2]["status"] == "Success"
        assert mark.exists()
        mark.unlink()
    recording = session.serving.recording()
    again = replaying.replayed(session.serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash
    assert not mark.exists()


# -- attach ----------------------------------------------------------------------------------------


async def test_attach_sends_what_is_written_from_now_on(tmp_path):
    file = tmp_path / "app.log"
    file.write_text(line("before"))
    rules = rule("ClusterAttach", attaches=[{"logsFile": str(file)}])
    async with web(tmp_path, rules) as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(asked(path_of("attach", stdout=1)))
            raw = b""
            while b"\r\n\r\n" not in raw:
                raw += await more(stream)
            assert raw.startswith(b"HTTP/1.1 101"), raw
            while b"after" not in raw:
                with file.open("a") as log:  # the client is attached from some moment on
                    log.write(line("unseen", "stderr") + line("after"))
                with trio.move_on_after(0.3):
                    raw += await more(stream)
            assert b"before" not in raw
            assert b"unseen" not in raw


async def test_attach_tells_an_error_in_its_channel(tmp_path):
    rules = rule("ClusterAttach", attaches=[{"logsFile": str(tmp_path / "none")}])
    async with web(tmp_path, rules) as session:
        told = await connected(session, path_of("attach", stdout=1))
        status = json.loads(b"".join(each[1:] for each in told if each[0] == 3))
        assert status["message"].startswith(
            "Internal error occurred: error attaching to container: failed to try resolving"
        )


# -- ports -----------------------------------------------------------------------------------------


@asynccontextmanager
async def echo():
    """A server that sends everything back in capitals, and its port."""

    async def answer(stream):
        async with stream:
            async for data in stream:
                await stream.send_all(bytes(data).upper())

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


SPDY = (
    f"POST {PODS}/web/portforward HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n"
    "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n"
    "Content-Length: 0\r\n\r\n"
).encode()


async def test_ports_lead_to_addresses_and_programs_at_the_same_time(tmp_path):
    script = "import sys; sys.stdout.write(sys.stdin.read()[::-1])"
    async with echo() as port:
        forwards = [
            {"ports": [80], "target": {"address": "127.0.0.1", "port": port}},
            {"ports": [81], "command": [sys.executable, "-c", script]},
            {"ports": [82], "command": ["sh", "-c", "echo lost >&2; exit 4"]},
        ]
        async with web(tmp_path, rule("ClusterPortForward", forwards=forwards)) as session:
            stream = await session.connect()
            async with stream:
                await stream.send_all(SPDY)
                raw = b""
                while b"\r\n\r\n" not in raw:
                    raw += await more(stream)
                client = Client()
                client.take(raw.partition(b"\r\n\r\n")[2])
                said = b""
                for number, at in enumerate((80, 81, 82, 83)):
                    for part, kind in ((1, "error"), (3, "data")):
                        said += client.opened(
                            4 * number + part, streamtype=kind, port=str(at), requestid=str(number)
                        )
                said += client.sent(3, b"abc") + client.sent(7, b"abc", ended=True)
                await stream.send_all(said)
                with trio.fail_after(60):
                    while not {7, 11, 15} <= client.ended or 3 not in client.data:
                        client.take(await more(stream))
                assert bytes(client.data[3]) == b"ABC"
                assert bytes(client.data[7]) == b"cba"
                begin = "error forwarding port {} to pod web/default, uid : "
                wrong = (
                    begin.format(82)
                    + "cmd wait: sh -c echo lost >&2; exit 4: exit status 4\nlost\n"
                )
                assert client.data[9].decode() == wrong
                none = begin.format(83) + 'no forward found for port 83 in pod "default/web"'
                assert client.data[13].decode() == none
                await stream.send_all(client.sent(3, b"more", ended=True))
                while 3 not in client.ended:
                    client.take(await more(stream))
                assert bytes(client.data[3]) == b"ABCMORE"


async def test_an_address_that_nothing_listens_at_is_an_error_of_its_port(tmp_path):
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    forwards = [{"target": {"address": "127.0.0.1", "port": port}}]
    async with web(tmp_path, rule("ClusterPortForward", forwards=forwards)) as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(asked(f"{PODS}/web/portforward?ports=80", "v4.channel.k8s.io"))
            raw = b""
            while b"connection refused" not in raw:
                raw += await more(stream)
        place = f"127.0.0.1:{port}"
        assert f"failed to dial {place}: dial tcp {place}: connect: ".encode() in raw
