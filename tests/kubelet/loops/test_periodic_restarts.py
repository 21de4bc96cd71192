"""The end of a run in which containers restart for ever."""

from __future__ import annotations

import pytest

from controlplane.api.times import SECOND
from controlplane.client.resources import PODS
from tests.controllers.worlds import Small

PREFIX = "emulate.controlplane/"


def restarting(policy: str = "Always", **annotations: str):
    """A pod whose only container ends."""
    notes = {f"{PREFIX}{name.replace('_', '-')}": value for name, value in annotations.items()}
    return PODS, {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "annotations": notes},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]},
    }


def test_a_crash_loop_ends_the_run_once_its_back_off_is_at_its_longest():
    small = Small((), restarting(run_seconds="1", exit_codes="1")).run()
    (container,) = small.one("pods").status.container_statuses
    assert container.state.waiting.reason == "CrashLoopBackOff"
    assert "back-off 5m0s" in container.state.waiting.message
    assert small.cluster.world.now < 600 * SECOND


@pytest.mark.slow
def test_long_runs_that_start_anew_for_ever_do_not_keep_a_run_from_ending():
    small = Small((), restarting(run_seconds="1200")).run()
    assert small.cluster.world.now < 10 * 1300 * SECOND


@pytest.mark.parametrize("codes", ["1,1,1,1,1,1,1,1,1,0"])
def test_a_pod_that_will_succeed_after_many_crashes_is_awaited(codes):
    small = Small((), restarting("OnFailure", run_seconds="1", exit_codes=codes)).run()
    assert small.one("pods").status.phase == "Succeeded"
