"""Kueue: the metrics after the steps of whole conversations."""

from __future__ import annotations

import math
from typing import Any

from attrs import evolve

from controlplane.kueue.controllers.workload_events import WorkloadEvents
from controlplane.kueue.metrics.gauges import Gauges
from controlplane.kueue.metrics.options import MetricsOptions
from controlplane.kueue.metrics.recorder import ControllerMetrics, Recorder, SchedulerMetrics
from controlplane.kueue.preemption.candidates import Rules
from controlplane.kueue.scheduler.scheduler import Scheduler, SchedulerOptions
from controlplane.metrics.family import Buckets
from tests.golden.answer_flavor_assignment import strategies_of
from tests.golden.answer_scheduler_conversations import Conversation
from tests.golden.runner import difference

OPTIONS = MetricsOptions(resources=True)


class Observed(Conversation):
    """A conversation in which everything is counted."""

    def __init__(self, case: Any) -> None:
        super().__init__(case)
        self.recorder = Recorder(self.cache, self.gates, OPTIONS)
        self.gauges = Gauges(self.cache, self.queues, self.store, self.gates, OPTIONS)
        told = ControllerMetrics(self.recorder)
        self.workloads = evolve(self.workloads, observer=told)
        self.cluster_queues = evolve(self.cluster_queues, observer=told)
        self.local_queues = evolve(self.local_queues, observer=told)
        self.events = WorkloadEvents(self.workloads, self.expectations)
        self.scheduler = Scheduler(
            self.queues,
            self.cache,
            self.store,
            self.clock,
            SchedulerOptions(Rules(self.gates, strategies_of(case["world"]))),
            self.expectations,
            SchedulerMetrics(self.recorder),
        )

    def metrics(self) -> Any:
        found: dict[str, Any] = {}
        for family in (*self.recorder.families(), *self.gauges.families()):
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels)
                found[f"{family.name}{{{labels}}}"] = shown(sample.value)
        return found


def shown(value: Any) -> Any:
    if isinstance(value, Buckets):
        before = (0, *value.at_most)
        rising: list[Any] = [
            [bound, count]
            for bound, count, less in zip(value.bounds, value.at_most, before, strict=False)
            if count > less
        ]
        if value.count > before[-1]:
            rising.append(["Inf", value.count])
        return {"buckets": rising, "count": value.count, "sum": value.sum}
    if math.isinf(value):
        return "Inf"
    return "NaN" if math.isnan(value) else value


def answer(case: Any) -> Any:
    conversation = Observed(case)
    found = []
    for at, step in enumerate(case["steps"]):
        conversation.do(step)
        if at < 2 or at == len(case["steps"]) - 1:
            found.append({"afterStep": at, "metrics": conversation.metrics()})
    return {"metrics": found}


def compare(want: Any, got: Any) -> str | None:
    return difference(want["metrics"], got["metrics"], "metrics")
