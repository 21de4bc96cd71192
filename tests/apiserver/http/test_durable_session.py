"""A served session over a file: what was acknowledged is there after SIGKILL, and uids are not given twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SECONDS = 120


class Session:
    """`controlplane serve` as a process, without TLS or token."""

    def __init__(self, folder: Path) -> None:
        config = folder / "kubeconfig"
        config.unlink(missing_ok=True)
        program = "from controlplane.cli.main import main; main()"
        arguments = [
            "serve",
            "--nodes",
            "0",
            "--no-tls",
            "--token",
            "",
            "--kubeconfig",
            str(config),
            "--controllers",
            "*,-root-ca-cert-publisher",
        ]
        store = ["--store", f"sqlite:{folder / 'store.db'}"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments, *store],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert "# http" in line, self.process.stderr.read()
        self.url = line.split("# ", 1)[1].split(",", 1)[0]

    def call(self, method: str, path: str, body: object = None) -> dict:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.load(answer)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("writes", [1, 7])
def test_acknowledged_writes_survive_a_kill_and_uids_stay_unique(tmp_path, writes):
    seen: dict[str, str] = {}
    path = "/api/v1/namespaces/default/configmaps"
    last = 0
    for life in range(3):
        session = Session(tmp_path)
        try:
            deadline = time.monotonic() + SECONDS
            found = session.call("GET", path)
            assert {
                item["metadata"]["name"]: item["metadata"]["uid"]
                for item in found["items"]
                if item["metadata"]["name"].startswith("life-")
            } == seen
            for number in range(writes):
                name = f"life-{life}-{number}"
                made = session.call("POST", path, {"metadata": {"name": name}, "data": {"a": "1"}})
                seen[name] = made["metadata"]["uid"]
                assert int(made["metadata"]["resourceVersion"]) > last
                last = int(made["metadata"]["resourceVersion"])
            assert time.monotonic() < deadline
        finally:
            session.kill()
    assert len(set(seen.values())) == len(seen) == 3 * writes
