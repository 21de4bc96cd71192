"""The progress deadline of a deployment in a run without a time limit."""

from __future__ import annotations

from controlplane.client.resources import DEPLOYMENTS
from tests.controllers.worlds import Small, template, workload


def test_a_run_awaits_the_progress_deadline():
    labels = {"app": "web"}
    spec = {
        "replicas": 1,
        "progressDeadlineSeconds": 60,
        "selector": {"matchLabels": labels},
        "template": template(labels, annotations={"never-ready": "true"}),
    }
    small = Small((), workload(DEPLOYMENTS, "Deployment", "web", spec)).run()
    conditions = {each.type: each.reason for each in small.one("deployments").status.conditions}
    assert conditions["Progressing"] == "ProgressDeadlineExceeded"
