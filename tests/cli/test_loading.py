"""A command imports no more than its world uses: imports are most of the processor time of a short run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.test_run import ROOT

OF_CLIENTS = (  # needed for clients from outside only
    "controlplane.apiserver.front.answering",
    "controlplane.apiserver.http.query",
    "controlplane.page",
    "controlplane.serving",
    "cryptography",
    "h11",
    "jwt",
    "wsproto",
)
OF_EXPRESSIONS = ("controlplane.api.jsonpath", "controlplane.apiserver.kinds.custom", "re2")
OF_SYSTEMS = (
    "controlplane.autoscaler",
    "controlplane.descheduler",
    "controlplane.kueue",
    "controlplane.kwok",
    "controlplane.scheduler.community",
    "controlplane.scheduler_plugins",
)
OF_SEARCHES = (
    "concurrent.futures",
    "controlplane.operators",
    "controlplane.races",
    "controlplane.scenarios.search.parallel",
    "controlplane.scenarios.search.planning",
    "distributed",
    "multiprocessing",
)
UNUSED = (  # by a world of one pod
    "controlplane.api.apps",
    "controlplane.api.autoscaling",
    "controlplane.api.storage",
    "controlplane.apiserver.kinds.admissionregistration",
    "controlplane.apiserver.kinds.apps.deployments",
    "controlplane.apiserver.kinds.resource.device_expressions",
    "controlplane.controllers.devices",
    "controlplane.controllers.loops.storage",
    "controlplane.controllers.storage.snapshot",
    "controlplane.kubelet.loops.claims",
    "controlplane.logs",
    "controlplane.scheduler.plugins.group_preemption",
    "controlplane.shell.running",
    "duckdb",
)
HEAVY = ("cattrs", "numpy", "rich", "trio", "yaml")

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, image: "web:1"}]
"""
PROGRAM = """
import sys
from controlplane.cli import main
sys.argv[0] = "controlplane"
status = main._run()
sys.stdout.flush()
sys.stderr.write(" ".join(sys.modules))
sys.exit(status)
"""


def loaded(*arguments):
    """The modules that are there when a command has done its work."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stderr.split()


def of(names, modules):
    """Those modules that are one of these names, or below it."""
    below = tuple(f"{name}." for name in names)
    return [module for module in modules if module in names or module.startswith(below)]


@pytest.fixture(scope="module")
def of_one_pod(tmp_path_factory):
    file = tmp_path_factory.mktemp("loading") / "pod.yaml"
    file.write_text(POD)
    return loaded("run", file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [OF_CLIENTS, OF_EXPRESSIONS, OF_SYSTEMS, OF_SEARCHES, UNUSED],
    ids=["clients", "expressions", "systems", "searches", "unused"],
)
def test_a_run_of_one_pod_imports_nothing_of_what_it_does_not_use(of_one_pod, names):
    assert of(["controlplane.kubelet.loops.kubelet"], of_one_pod)
    assert of(names, of_one_pod) == []


@pytest.mark.slow
def test_a_process_imports_the_controllers_that_it_has(tmp_path):
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    modules = loaded("run", file, "--controllers", "job")
    rooms = {
        name for name in of(["controlplane.controllers.workloads"], modules) if name.count(".") == 3
    }
    assert "controlplane.controllers.workloads.job" in rooms
    assert "controlplane.controllers.workloads.deployment" not in rooms


def test_the_list_of_races_imports_no_part_of_a_cluster():
    modules = loaded("race", "list")
    assert of(["controlplane.races"], modules)
    parts = [f"controlplane.{name}" for name in ("apiserver.requests", "cluster", "scheduler")]
    assert of([*HEAVY, *parts], modules) == []


@pytest.mark.parametrize("command", ["run", "serve", "race", "explore", "logs"])
def test_help_imports_nothing_heavy(command):
    assert of(HEAVY, loaded(command, "--help")) == []
