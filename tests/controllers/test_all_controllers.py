"""Every controller at once, each with something to do."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.api.times import SECOND
from controlplane.client.resources import CRON_JOBS, DAEMON_SETS, JOBS, STATEFUL_SETS
from tests.controllers.autoscaling.podautoscaler.test_autoscaler_world import autoscaler, web
from tests.controllers.worlds import Small, template, workload

RUN = template({}, policy="Never", annotations={"run-seconds": "5"})


def selecting(app: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": app}
    return {"selector": {"matchLabels": labels}, "template": template(labels), **spec}


@pytest.mark.parametrize("seed", range(2))
def test_all_workloads_settle_beside_each_other(seed):
    small = Small(
        ("*",),
        web("100m"),
        autoscaler(),
        workload(
            JOBS, "Job", "once",
            {"completions": 3, "parallelism": 2, "template": RUN, "ttlSecondsAfterFinished": 20},
        ),
        workload(
            CRON_JOBS, "CronJob", "tick",
            {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": RUN}}},
        ),
        workload(
            STATEFUL_SETS, "StatefulSet", "ring", selecting("ring", replicas=3, serviceName="ring")
        ),
        workload(DAEMON_SETS, "DaemonSet", "agent", selecting("agent")),
        strategy=RandomWalk(seed),
    ).run(until_ns=100 * SECOND)  # fmt: skip
    assert [obj.name for obj in small.objects("jobs")] == ["tick-29453761"]
    assert small.one("deployments").status.ready_replicas == 4
    assert small.one("statefulsets").status.ready_replicas == 3
    assert small.one("daemonsets").status.number_ready == 2
    assert len(small.objects("pods")) == 4 + 3 + 2 + 1
