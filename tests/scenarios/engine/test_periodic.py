"""The periodic work that a settled run names."""

from __future__ import annotations

import pytest

from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: one
  annotations: {{emulate.controlplane/run-seconds: "1", emulate.controlplane/exit-codes: "1"}}
spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu!r}}}}}}}]}}
"""
TICK = """
apiVersion: batch/v1
kind: CronJob
metadata: {{name: tick}}
spec:
  schedule: {schedule!r}
  suspend: {suspend}
  jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}
"""
SCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 3}
"""


def summary(tmp_path, text, **options):
    path = tmp_path / "given.yaml"
    path.write_text(text)
    run = Execution(plan_of(SCENARIO, files=(str(path),), nodes=1, **options))
    run.execute("bare")
    return summary_of(run)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (POD.format(cpu="1"), ["restarts of pod default/one (c) every 300 s at least"]),
        (POD.format(cpu="100"), ["scheduling of pod default/one every 300 s"]),
        (
            TICK.format(schedule="0 3 * * *", suspend="false"),
            ["CronJob default/tick at 2026-01-01T03:00:00Z (virtual second 10800)"],
        ),
        (TICK.format(schedule="0 3 * * *", suspend="true"), []),
        (SCALER, ["HorizontalPodAutoscaler default/web every 15 s"]),
    ],
)
def test_a_settled_run_names_what_would_go_on(tmp_path, text, expected):
    told = summary(tmp_path, text)
    assert (told.verdict, told.reason) == ("quiescent", "only periodic work is left")
    assert list(told.periodic) == [*expected, "heartbeats of 1 node every 10 s"]


def test_work_without_its_controller_does_not_go_on(tmp_path):
    told = summary(tmp_path, SCALER, controllers="*,-horizontal-pod-autoscaler-controller")
    assert list(told.periodic) == ["heartbeats of 1 node every 10 s"]


def test_a_run_with_a_time_limit_names_nothing(tmp_path):
    assert summary(tmp_path, SCALER, until=20.0).periodic == ()
