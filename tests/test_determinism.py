"""The determinism self-tests of facts/simulation, section 5, on a whole control plane."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors import EventLog, RandomWalk, Replay
from actors.log import LEVELS
from controlplane.client.loops.clientset import DEPLOYMENTS, PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree

ROOT = Path(__file__).parents[1]
SECOND = 1_000_000_000


def deployment(replicas: int) -> dict:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
                    ]
                },
            },
        },
    }


async def user(ctx) -> None:
    client = Client(ctx)
    await client.create(DEPLOYMENTS, deployment(3))
    await ctx.sleep(20 * SECOND)
    pods = await client.list(PODS, "default")
    await client.delete(PODS, "default", pods.items[0].name)
    await ctx.sleep(60 * SECOND)
    await client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 1}})


def small_cluster(strategy=None, log=None):
    nodes = tuple(node_tree(f"node-{number}", cpu="2") for number in (1, 2))
    cluster = Cluster(ClusterConfig(nodes=nodes), strategy=strategy, log=log or EventLog())
    cluster.user("user", user)
    return cluster


def run(strategy=None, driver="bare", log=None):
    cluster = small_cluster(strategy, log)
    result = cluster.world.run(driver)
    assert result.verdict == "quiescent", result.reason
    return cluster, result


def test_the_scenario_does_what_it_says():
    cluster, result = run()
    pods = cluster.objects("/registry/pods/")
    assert [pod.view.status.phase for pod in pods] == ["Running"]
    assert result.t_ns >= 80 * SECOND


@pytest.mark.slow
def test_one_seed_gives_one_trace_many_times_in_one_process():
    assert len({run(RandomWalk(3))[1].trace_hash for _ in range(10)}) == 1


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_both_drivers_give_the_same_trace(seed):
    def strategy():
        return None if seed is None else RandomWalk(seed)

    bare, trio = run(strategy(), "bare")[1], run(strategy(), "trio")[1]
    assert (bare.trace_hash, bare.steps) == (trio.trace_hash, trio.steps)


@pytest.mark.slow
def test_every_log_level_gives_the_same_trace():
    hashes = {run(RandomWalk(5), log=EventLog(level))[1].trace_hash for level in LEVELS.values()}
    assert len(hashes) == 1


def test_a_replay_without_the_seed_gives_the_same_trace_and_the_same_objects():
    cluster, first = run(RandomWalk(9))
    again_cluster, again = run(Replay(first.choices), "trio")
    assert again.trace_hash == first.trace_hash
    assert again_cluster.dump() == cluster.dump()


PROGRAM = """
from actors import RandomWalk
from tests.test_determinism import run
cluster, result = run(RandomWalk(4))
import hashlib
print(result.trace_hash, hashlib.sha256(cluster.dump().encode()).hexdigest())
"""


def in_fresh_process(python: str, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", PROGRAM], env=environment, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_fresh_processes_with_any_hash_seed_give_the_same_bytes():
    seen = {
        in_fresh_process(sys.executable, seed) for seed in ("0", "1", "12345", "random", "random")
    }
    assert len(seen) == 1


def other_pythons() -> list[str]:
    """Other supported interpreters with our dependencies: the environments that `dev.py` makes."""
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = []
    for folder in sorted(ROOT.glob(".venv-3.*")):
        python = folder / "bin" / "python"
        if (
            python.exists()
            and (folder / "installed-dev").exists()
            and folder.name != f".venv-{mine}"
        ):
            found.append(str(python))
    return found


@pytest.mark.slow
def test_other_python_versions_give_the_same_bytes():
    others = other_pythons()
    if not others:
        pytest.skip("no environment of another Python version (dev.py makes one per version)")
    expected = in_fresh_process(sys.executable, "0")
    for python in others:
        assert in_fresh_process(python, "random") == expected, python
