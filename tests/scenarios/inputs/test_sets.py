"""Excerpts, made by us, in the manner of sets that are installed in many clusters: none is refused falsely."""

import subprocess
import sys
from pathlib import Path

import pytest

SETS = Path(__file__).parent / "sets"
PROGRAM = "from controlplane.cli.main import main; main()"


def run(name):
    command = [sys.executable, "-c", PROGRAM, "run", str(SETS / f"{name}.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "running", "kept"),
    [
        (
            "ingress-controller",
            ["ingress/controller"],
            ["IngressClass", "ValidatingWebhookConfiguration"],
        ),
        ("monitoring", ["monitoring/node-exporter"], ["ServiceMonitor.monitoring.coreos.com (1)"]),
        ("delivery", ["default/repo-server"], ["Bucket.source.toolkit.fluxcd.io (1)"]),
        ("load-balancer", [], ["BGPPeer.metallb.io (1)"]),
        ("serverless", ["serverless/webhook", "kube-system/metrics-server"], ["APIService"]),
        ("local-storage", [], []),
    ],
)
def test_a_set_is_loaded_and_what_is_only_kept_is_named(name, running, kept):
    status, out, err = run(name)
    assert (status, err) == (0, "")
    assert "quiescent" in out and "Failed" not in out
    for pod in running:
        assert any(pod in line and "Running" in line for line in out.splitlines()), pod
    noted = [line for line in out.splitlines() if line.startswith("only kept")]
    assert bool(noted) is bool(kept)
    assert all(each in noted[0] for each in kept)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("removed-kinds", "no kind 'DaemonSet' is registered for version 'extensions/v1beta1'"),
        ("foreign-kinds", "no kind 'CephCluster' is registered for version 'ceph.rook.io/v1'"),
    ],
)
def test_what_is_not_served_is_refused_by_file_and_line(name, said):
    status, out, err = run(name)
    assert (status, out) == (2, "")
    assert err.startswith(f"controlplane: {SETS / name}.yaml:") and said in err
    assert err.count("\n") == 1
