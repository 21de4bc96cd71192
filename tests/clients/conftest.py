"""One served control plane for the tests of other people's clients, and a namespace for each test."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.clients.plain import send

MAIN = [sys.executable, "-c", "from controlplane.cli.main import main; main()"]


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a control plane that lives as long as the session, with TLS and a token."""
    folder = tmp_path_factory.mktemp("served")
    with (folder / "stderr").open("w+") as stderr:
        process = subprocess.Popen(
            [*MAIN, "serve", "--nodes", "2", "--speed", "max"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        with process:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("kubectl"), (first, (folder / "stderr").read_text())
            yield folder / "controlplane.kubeconfig"
            process.terminate()
            process.stdout.read()
            process.wait(timeout=30)
    assert (folder / "stderr").read_text() == ""


@pytest.fixture(scope="session")
def namespaces(kubeconfig: Path) -> Callable[[], str]:
    """Makes a fresh namespace. Nothing is cleaned up: the control plane goes with the session."""
    config = yaml.safe_load(kubeconfig.read_text())
    numbers = itertools.count(1)

    def make() -> str:
        name = f"test-{next(numbers)}"
        made = send(config, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert made["status"]["phase"] == "Active"
        ready = f"/api/v1/namespaces/{name}/serviceaccounts"
        for _ in range(100):  # pods may come once their account has
            if send(config, "GET", ready)["items"]:
                break
        return name

    return make


@pytest.fixture
def namespace(namespaces: Callable[[], str]) -> str:
    """A namespace of the test's own."""
    return namespaces()
