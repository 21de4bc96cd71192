"""The examples run as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples" / "actors"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ping_pong.py", "quiescent after 11 steps"),
        ("lost_update.py", "same trace: True"),
    ],
)
def test_an_example_of_the_runtime_runs(name, expected):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in done.stdout


@pytest.mark.slow
def test_a_group_snapshot_gets_ready_and_its_objects_are_printed_as_upstream_shows_them():
    folder = ROOT / "examples" / "group-snapshot"
    program = "from controlplane.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    head = (
        "NAMESPACE NAME READYTOUSE VOLUMEGROUPSNAPSHOTCLASS VOLUMEGROUPSNAPSHOTCONTENT "
        "CREATIONTIME AGE"
    )
    assert head in lines
    ready = "demo-namespace snapshot-daily-20241217 true csi-groupsnapclass groupsnapcontent-"
    assert any(line.startswith(ready) for line in lines)
    assert {"VolumeSnapshot: 2", "VolumeSnapshotContent: 2"} <= set(lines)
    assert any(line.startswith("demo-namespace/database Running yes") for line in lines)


SCRIPTS = {
    "update_removes_successor.py": (
        ("--fix", "77952", "--apiservers", "2", "--strategy", "random-walk"),
        ("--rounds", "20"),
        "lost: 0 of 20 config maps that were created and that nothing deleted\n",
    ),
    "recreated_daemonsets.py": (
        ("--fix", "72155", "--nodes", "1", "--speed", "60"),
        ("--sets", "20", "--wait", "12"),
        "without pods after 12 s: 0 of 20 DaemonSets\n",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_for_upstream_shows_no_loss_with_the_repair(name, tmp_path):
    options, asked, expected = SCRIPTS[name]
    done = run_against_serve(name, tmp_path, options, asked)
    assert done.stdout == expected
    assert done.returncode == 0


@pytest.mark.slow
def test_a_script_for_upstream_shows_that_parameters_are_not_found(tmp_path):
    done = run_against_serve("stopped_parameter_informer.py", tmp_path, ("--nodes", "0"), ())
    assert "no params found for policy binding" in done.stdout
    assert done.returncode == 1


def run_against_serve(name, tmp_path, options, asked):
    """The end of a script for upstream against `serve` with these options."""
    script = ROOT / "examples" / "upstream" / name
    kubeconfig = tmp_path / "kubeconfig"
    program = "from controlplane.cli.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["serve", "--no-tls", "--port", "0", "--kubeconfig", str(kubeconfig), *options]
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
    ) as server:
        try:
            assert server.stdout is not None
            url = re.search(r"http://[0-9.]+:[0-9]+", server.stdout.readline())
            token = re.search(r"token: \"?([^\"\s]+)", kubeconfig.read_text(encoding="utf-8"))
            assert url is not None
            assert token is not None
            done = subprocess.run(
                [sys.executable, str(script), url.group(), "--token", token.group(1), *asked],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            server.terminate()
    return done


@pytest.mark.slow
def test_a_training_gang_preempts_and_runs_as_a_whole():
    program = "from controlplane.cli.main import main; main()"
    gates = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
    example = ROOT / "examples" / "training-gang.yaml"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(example), "--feature-gates", gates],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "Pods: 4 Running" in lines
    assert not any("cheap" in line for line in lines)


@pytest.mark.slow
def test_two_claims_share_a_gpu_and_the_third_waits():
    program = "from controlplane.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", str(ROOT / "examples" / "devices"), "--until", "60"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "Pods: 1 Pending, 2 Running" in lines
    assert any("cannot allocate all claims" in line for line in lines)
