"""The pytest fixture `cluster`: a user's test with a served cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.testing.cluster import ServedCluster
from tests.testing.test_plugin import PLUGIN, run

SUITE = """
import pytest

from controlplane.errors import UsageError

PLACE = "/api/v1/namespaces/default/configmaps"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}


@pytest.mark.cluster("--nodes", 1, "--speed", "max")
def test_an_operator(cluster):
    assert cluster.kubeconfig.read_text().count(cluster.url) == 1
    cluster.fail(409, verb="create", resource="configmaps")
    with pytest.raises(UsageError, match="refused by a rule"):
        cluster.create(PLACE, MAP)
    assert [each["matched"] for each in cluster.faults()] == [1]
    cluster.clear_faults()
    cluster.create(PLACE, MAP)
    assert cluster.get(f"{PLACE}/c")["metadata"]["name"] == "c"
    cluster.pause()
    before = cluster.now
    cluster.step(30)
    assert round(cluster.now - before, 6) == 30
"""


@pytest.mark.slow
def test_a_test_has_a_cluster_and_its_session_is_recorded_with_the_faults(tmp_path: Path) -> None:
    (tmp_path / "test_operator.py").write_text(SUITE)
    done = run(tmp_path, "pytest", "-q", "-W", "error", *PLUGIN)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    recording = tmp_path / ".controlplane" / "sessions" / "test_an_operator" / "run.rec"
    again = run(tmp_path, "controlplane", "serve", "--nodes", "1", "--replay", str(recording))
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_a_cluster_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"did not start: .*expected at least 0"):
        ServedCluster(tmp_path, ["--nodes", "-1"])
