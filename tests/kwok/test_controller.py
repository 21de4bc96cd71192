"""KWOK in a whole cluster, by its examples."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_run import ROOT, controlplane

FOLDER = ROOT / "examples" / "kwok"
WITH = ("--with", "kwok", "--stages", FOLDER / "stages.yaml")


@pytest.mark.slow
def test_stages_run_pods_on_fake_nodes_beside_kubelets_and_replay(tmp_path):
    chosen = ("run", FOLDER / "web.yaml", "--nodes", 1, *WITH)
    done = controlplane(*chosen, "--out", tmp_path / "out", "--format", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    phases = [pod["phase"] for pod in told["pods"]]
    assert (phases.count("Running"), phases.count("Succeeded")) == (20, 3)
    again = controlplane("replay", tmp_path / "out" / "run.rec", "--format", "json")
    assert json.loads(again.stdout)["same_trace"], again.stderr


@pytest.mark.slow
def test_jitter_and_stages_are_choices_of_the_run():
    chosen = ("run", FOLDER / "web.yaml", "--nodes", 1, *WITH, "--strategy", "random-walk")
    traces = {
        json.loads(controlplane(*chosen, "--seed", seed, "--format", "json").stdout)["trace_hash"]
        for seed in (1, 2)
    }
    assert len(traces) == 2


def test_a_file_without_stages_is_refused():
    refused = controlplane("run", FOLDER / "web.yaml", "--with", "kwok", "--stages", FOLDER / "web.yaml")  # fmt: skip
    assert refused.returncode == 2
    assert "web.yaml: 'Node': expected kind Stage" in refused.stderr


def test_an_autoscaler_goes_by_the_usage_of_pods_on_fake_nodes():
    chosen = ("run", FOLDER / "autoscaled.yaml", "--nodes", 0, *WITH, "--until", 120)
    scaled = controlplane(*chosen, "--stages", FOLDER / "metrics.yaml", "--format", "json")
    assert len(json.loads(scaled.stdout)["pods"]) == 4, scaled.stderr
    unknown = controlplane(*chosen, "--format", "json")
    assert len(json.loads(unknown.stdout)["pods"]) == 2, unknown.stderr
