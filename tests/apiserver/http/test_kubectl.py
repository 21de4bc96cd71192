"""kubectl itself against `controlplane serve`, as its user meets it."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

KUBECTL = shutil.which("kubectl")
SHOP = Path(__file__).parents[3] / "examples" / "shop.yaml"
MAIN = [sys.executable, "-c", "from controlplane.cli.main import main; main()"]

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")


class Served:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "controlplane.kubeconfig"),
            "HOME": str(folder),
            "COLUMNS": "200",
        }
        self.process = subprocess.Popen(
            [*MAIN, "serve", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()

    def kubectl(self, *arguments: str, code: int = 0, text: str | None = None) -> str:
        done = subprocess.run(
            [str(KUBECTL), *arguments],
            input=text,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def time(self, *arguments: str) -> str:
        done = subprocess.run(
            [*MAIN, "time", *arguments], env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> str:
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=30)
        assert err == ""
        assert self.process.returncode == 0
        return out


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(*arguments: str) -> Served:
        served = Served(tmp_path, *arguments)
        running.append(served)
        return served

    yield begin
    for served in running:
        if served.process.poll() is None:
            served.process.kill()
        with served.process:
            pass


@pytest.mark.slow
def test_a_shop_from_creation_to_deletion(start, tmp_path):
    served = start("--nodes", "3", "--speed", "100", "--out", "left")
    assert served.first_line.startswith("kubectl --kubeconfig controlplane.kubeconfig get nodes")
    assert len(re.findall(r"^node-\d +Ready ", served.kubectl("get", "nodes"), re.MULTILINE)) == 3
    served.kubectl("get", "pods", "-A")
    made = served.kubectl("create", "-f", str(SHOP))
    assert made.count(" created") == made.count("\n") == 24
    watch = subprocess.Popen(
        [str(KUBECTL), "-n", "shop", "get", "pods", "-w", "--no-headers"],
        env=served.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    rolled = served.kubectl("-n", "shop", "rollout", "status", "deployment/storefront")
    assert "successfully rolled out" in rolled
    served.kubectl(
        "-n", "shop", "wait", "--for=condition=Available", "deployment", "--all", "--timeout=60s"
    )
    pods = json.loads(served.kubectl("-n", "shop", "get", "pods", "-o", "json"))["items"]
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert len(pods) == 22
    served.kubectl("-n", "shop", "scale", "deployment/advice", "--replicas=4")
    served.kubectl("-n", "shop", "rollout", "status", "deployment/advice")
    served.kubectl("-n", "shop", "delete", "deployment", "storefront")
    served.kubectl("-n", "shop", "get", "deployment", "storefront", code=1)
    log = served.kubectl("-n", "shop", "logs", "deployment/advice")
    assert log.startswith("container ") and log.endswith(" started\n")
    inside = ("-n", "shop", "exec", "deployment/advice", "--", "sh", "-c")
    assert served.kubectl(*inside, "hostname").startswith("advice-")
    served.kubectl(*inside, "exit 3", code=3)
    wide = served.kubectl("-n", "shop", "get", "pods", "-o", "wide")
    assert "node-1" in wide
    described = served.kubectl("-n", "shop", "describe", "deployment", "advice")
    assert "ScalingReplicaSet" in described
    out = served.end()
    seen, _ = watch.communicate(timeout=10)
    assert re.search(r"^advice-\S+ +0/1 +Pending", seen, re.MULTILINE)
    assert re.search(r"^advice-\S+ +0/1 +ContainerCreating", seen, re.MULTILINE)
    assert re.search(r"^advice-\S+ +1/1 +Running", seen, re.MULTILINE)
    assert "stopped: SIGINT" in out
    trace = re.search(r"trace (\w+)", out)
    assert trace is not None
    again = subprocess.run(
        [*MAIN, "serve", "--nodes", "3", "--replay", "left/run.rec", "--out", "again"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    assert trace[0] in again.stdout
    for name in ("log.jsonl", "objects.yaml"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "left" / name).read_bytes()


@pytest.mark.slow
def test_time_stands_still_and_moves_while_kubectl_looks_on(start):
    served = start(str(SHOP), "--speed", "paused", "--nodes", "2")
    served.kubectl("get", "nodes")
    assert "paused" in served.time("show")
    served.time("step", "0")  # until everything has happened that happens now
    before = served.kubectl("-n", "shop", "get", "pods", "--no-headers")
    assert "Running" not in before
    assert served.kubectl("-n", "shop", "get", "pods", "--no-headers") == before
    assert served.time("step", "30") == "virtual time 30.000 s, paused\n"
    after = served.kubectl("-n", "shop", "get", "pods", "--no-headers")
    assert after.count("Running") == 22
    assert "speed max" in served.time("speed", "max") or "paused" in served.time("show")
    assert "speed max" in served.time("resume")
    served.end()


@pytest.mark.slow
def test_what_people_do_with_configuration(start):
    served = start("--speed", "max", "--nodes", "1")
    tree = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: %s}\n"
    assert "created" in served.kubectl("apply", "-f", "-", text=tree % "red")
    assert "configured" in served.kubectl("apply", "-f", "-", text=tree % "blue")
    assert "unchanged" in served.kubectl("apply", "-f", "-", text=tree % "blue")
    applied = served.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", text=tree % "green"
    )
    assert "serverside-applied" in applied
    assert "green" in served.kubectl("get", "configmap", "settings", "-o", "yaml")
    served.kubectl("label", "configmap", "settings", "a=b")
    served.kubectl("patch", "configmap", "settings", "-p", '{"data":{"size":"big"}}')
    assert "big" in served.kubectl("get", "cm", "settings", "-o", "jsonpath={.data.size}")
    assert "deployments" in served.kubectl("api-resources")
    refused = served.kubectl(
        "create",
        "-f",
        "-",
        text="apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n",
        code=1,
    )
    assert "spec.containers" in refused
    served.kubectl("delete", "configmap", "settings")
    assert "NotFound" in served.kubectl("get", "configmap", "settings", code=1)
    served.end()


@pytest.mark.slow
def test_generators_and_access(start):
    served = start("--nodes", "1", "--speed", "100")
    served.kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2", "--port=80")
    served.kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    served.kubectl("create", "rolebinding", "bob", "--role=reader", "--user=bob")
    served.kubectl("create", "secret", "generic", "s", "--from-literal=p=q")
    served.kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    served.kubectl("create", "cronjob", "c", "--image=i", "--schedule=*/5 * * * *")
    served.kubectl("create", "ingress", "i", "--rule=a.b/x=web:80")
    assert served.kubectl("auth", "can-i", "list", "pods", "--as", "bob") == "yes\n"
    served.kubectl("auth", "can-i", "delete", "pods", "--as", "eve", code=1)
    served.kubectl("rollout", "status", "deployment/web")
    assert served.kubectl("get", "pods", "--as", "bob", "--no-headers").count("Running") == 2
    assert "Forbidden" in served.kubectl("get", "secrets", "--as", "bob", code=1)
    port = "jsonpath={.spec.template.spec.containers[0].ports[0].containerPort}"
    assert served.kubectl("get", "deployment", "web", "-o", port) == "80"
    served.end()


def test_it_is_ready_once_it_has_told_its_address(start):
    served = start()
    served.kubectl("get", "--raw", "/readyz")
    served.end()


class Terminal:
    """kubectl at a terminal of its own."""

    def __init__(self, served: Served, *arguments: str) -> None:
        import pty

        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [str(KUBECTL), *arguments],
            env=served.environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self.shown = ""

    def until(self, text: str) -> None:
        """Read until a text is shown."""
        while text not in self.shown:
            ready, _, _ = select.select([self._master], [], [], 30)
            assert ready, self.shown
            self.shown += os.read(self._master, 4096).decode()

    def type(self, text: str) -> None:
        """Type a text, and read what is shown of it."""
        self.shown = ""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """The exit code."""
        code = self._process.wait(timeout=30)
        os.close(self._master)
        return code


@pytest.mark.slow
def test_debug_gets_a_shell_that_lives_until_exit(start):
    served = start("--nodes", "1", "--speed", "20")
    served.kubectl("run", "web", "--image=nginx")
    served.kubectl("wait", "--for=condition=Ready", "pod/web")
    terminal = Terminal(served, "debug", "-it", "web", "-c", "look", "--image=busybox", "--", "sh")
    terminal.until("/ # ")
    terminal.type("hostname\r")
    terminal.until("\nweb\r\n/ # ")
    terminal.type("for i in 1 2\r")
    terminal.until("> ")
    terminal.type("do echo $((i * 21)); done\r")
    terminal.until("42\r\n/ # ")
    terminal.type("exit 3\r")
    terminal.until("Session ended")
    terminal.end()
    path = "jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}"
    for _ in range(100):
        if served.kubectl("get", "pod", "web", "-o", path) == "3":
            break
    assert served.kubectl("get", "pod", "web", "-o", path) == "3"
    assert served.kubectl("logs", "web", "-c", "look").startswith("web\n21\n42\n")
    served.end()


@pytest.mark.slow
def test_run_ends_with_the_status_and_the_output_of_its_program(start):
    served = start("--nodes", "1", "--speed", "20")
    once = ("run", "x", "--rm", "-i", "--restart=Never", "--image=busybox", "--")
    assert served.kubectl(*once, "echo", "hi").startswith("hi\n")
    served.kubectl(*once, "false", code=1)
    served.kubectl(*once, "sh", "-c", "sleep 1; exit 3", code=3)
    assert served.kubectl(*once, "sh", text="echo $((6 * 7))\n").startswith("42\n")
    served.end()
