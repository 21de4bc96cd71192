"""The pytest fixture `cluster`: a served cluster for operators and clients of any kind, with time and faults in hand.

    @pytest.mark.cluster("--nodes", "3", "--speed", "max")
    def test_the_operator_retries(cluster):
        cluster.fail(409, verb="update", resource="configmaps", times=2)
        subprocess.run(["my-operator", "--once"], env={"KUBECONFIG": str(cluster.kubeconfig)})
        assert cluster.get("/api/v1/namespaces/default/configmaps/c")["data"] == {"done": "yes"}

The marker's arguments are options of `controlplane serve`. The session is recorded below
`.controlplane/sessions/`, with its requests and faults: `controlplane serve --replay` repeats it without a client.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.apiserver.http.kubeconfig import Address

__all__ = ["ServedCluster", "cluster"]

SESSIONS = Path(".controlplane") / "sessions"
START_S = 60.0
"""How long a cluster may take to be reachable, in seconds of wall time."""
END_S = 30.0
_FAULTS, _TIME = "/controlplane/faults", "/controlplane/time"


class ServedCluster:
    """A cluster that `controlplane serve` runs in a process of its own."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        """Start it and wait until it can be reached.

        Args:
            folder: where kubeconfig, log and recording are left.
            options: options of `controlplane serve`.

        Raises RuntimeError with what the process printed if it does not start.
        """
        from controlplane.apiserver.http.kubeconfig import read

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        """The file for kubectl and every other client: the administrator's."""
        self.kubeconfig.unlink(missing_ok=True)
        words = ["serve", *options, "--kubeconfig", str(self.kubeconfig), "--out", str(folder)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "controlplane", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self._wait()
            self._address: Address = read(self.kubeconfig)
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise

    @property
    def url(self) -> str:
        """The address of the API server."""
        return self._address.url

    @property
    def recording(self) -> Path:
        """The recording of the session, whole once the cluster has ended."""
        return self.folder / "run.rec"

    def _wait(self) -> None:
        """Wait until the line is printed that the cluster can be reached."""
        assert self._process.stdout is not None
        printed = []
        for line in self._process.stdout:
            printed.append(line)
            if line.startswith("kubectl "):
                return
        raise RuntimeError(f"controlplane serve did not start: {''.join(printed).strip()}")

    # ------------------------------------------------------------------ requests

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON that the API answers. Raises UsageError with the server's message if it refuses."""
        from controlplane.serving.asking import ask

        return ask(self._address, method, path, body, seconds=START_S)

    def get(self, path: str) -> Any:
        """Return what the API answers to a GET."""
        return self.request("GET", path)

    def create(self, path: str, obj: Any) -> Any:
        """Create an object in the collection at a path."""
        return self.request("POST", path, obj)

    # ------------------------------------------------------------------ time

    @property
    def now(self) -> float:
        """The virtual seconds since the start."""
        return float(self.get(_TIME)["virtual"])

    def pause(self) -> None:
        """Stop time; requests are answered, nothing else happens."""
        self.request("POST", _TIME, {"action": "pause"})

    def resume(self) -> None:
        """Let time go on."""
        self.request("POST", _TIME, {"action": "resume"})

    def step(self, seconds: float) -> None:
        """Let virtual seconds pass as fast as possible, then pause; return when it is done."""
        self.request("POST", _TIME, {"action": "step", "seconds": seconds})

    def speed(self, speed: float | str) -> None:
        """Set how many virtual seconds pass in a second, or "max"."""
        self.request("POST", _TIME, {"action": "speed", "speed": speed})

    # ------------------------------------------------------------------ faults

    def fail(self, code: int, **which: Any) -> None:
        """Answer requests with an HTTP code: 409, 429, 500 ...

        `which` narrows it: `verb`, `resource` ("pods", "pods/status"), `namespace`, `name` and `agent` (the client's
        User-Agent) are patterns, `after` the number of requests that pass before, `times` how many are
        refused (1 by default, 0 for all).
        """
        self._add({"action": "fail", "code": code, **which})

    def cut_watches(self, **which: Any) -> None:
        """End watches that are about to send an event; `which` as of `fail`, `name` and `verb` aside."""
        self._add({"action": "cut", **which})

    def expire_watches(self, **which: Any) -> None:
        """End watches with 410 Expired, so that the client lists anew; `which` as of `cut_watches`."""
        self._add({"action": "expire", **which})

    def lag_watches(self, seconds: float, **which: Any) -> None:
        """Hold events of watches back for virtual seconds; `which` as of `cut_watches`."""
        self._add({"action": "lag", "seconds": seconds, **which})

    def faults(self) -> list[dict[str, Any]]:
        """Return the rules in force; `matched` counts what they met."""
        found: list[dict[str, Any]] = self.get(_FAULTS)["rules"]
        return found

    def clear_faults(self) -> None:
        """Take all rules away."""
        self.request("DELETE", _FAULTS)

    def _add(self, rule: dict[str, Any]) -> None:
        self.request("POST", _FAULTS, rule)

    # ------------------------------------------------------------------ end

    def stop(self) -> int:
        """End the cluster; its exit status: 1 when the emulation had ended by itself."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[ServedCluster]:
    """Serve a cluster for one test; the marker `cluster` has options of `controlplane serve`."""
    options = [str(each) for mark in request.node.iter_markers("cluster") for each in mark.args]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name).strip("-")
    folder = Path(request.config.rootpath) / SESSIONS / name
    shutil.rmtree(folder, ignore_errors=True)
    served = ServedCluster(folder, options)
    try:
        yield served
    finally:
        served.stop()
