"""What components count, over virtual time: only changes, at whole seconds, and at no cost to the run's trace."""

from __future__ import annotations

import json
from itertools import pairwise

from jsonschema import Draft202012Validator

from actors import EventLog, RandomWalk
from controlplane.logs import open_run, series
from controlplane.metrics.family import Buckets, Family, Sample
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.samples import MOST, Row, Samples, rows_of

SECOND = 1_000_000_000


async def workload(user) -> None:
    """Pods that fit, and one that never does; the scheduler dies and comes back."""
    await user.create(pod("a", "1"))
    await user.create(pod("big", "64"))
    await user.sleep(7)
    user.crash("scheduler")
    await user.sleep(3)
    user.restart("scheduler")
    await user.sleep(20)


def run(*, sampled: bool) -> Execution:
    plan = plan_of(Scenario("sampled", workload=workload, defaults={"nodes": 2}), seed=3)
    made = Execution(plan, RandomWalk(3), log=EventLog())
    if sampled:
        made.sample()
    made.execute("bare")
    return made


def gauge(value: float, **labels: str) -> Family:
    return Family("pods", "gauge", "Pods.", (Sample(tuple(sorted(labels.items())), value),))


def sampled(values, moments, **options):
    """The lines of numbers that have these values when time moves on at these moments."""
    now = iter(values)
    samples = Samples(lambda: (gauge(next(now), queue="active"),), **options)
    for at, until in pairwise(moments):
        samples.passes(at, until)
    return [json.loads(line) for line in samples.lines("r")]


def test_sampling_leaves_the_trace_as_it_is_and_is_the_same_every_time(tmp_path):
    plain, one, other = run(sampled=False), run(sampled=True), run(sampled=True)
    assert plain.result.trace_hash == one.result.trace_hash == other.result.trace_hash
    assert series.NAME not in plain.save(tmp_path / "plain")
    for name, made in (("one", one), ("other", other)):
        assert series.NAME in made.save(tmp_path / name)
    first, second = ((tmp_path / name / series.NAME).read_bytes() for name in ("one", "other"))
    assert first == second


def test_a_run_leaves_numbers_that_fit_the_schema_and_tell_its_story(tmp_path):
    run(sampled=True).save(tmp_path)
    validator = Draft202012Validator(series.schema())
    for line in (tmp_path / series.NAME).read_text().splitlines():
        validator.validate(json.loads(line))
    (waiting,) = open_run(tmp_path).metrics("scheduler_pending_pods", queue="unschedulable")
    assert waiting["points"][0] == [0, 1]
    (tried,) = open_run(tmp_path).metrics(
        "scheduler_schedule_attempts_total", result="unschedulable", profile="default-scheduler"
    )
    values = [value for _, value in tried["points"]]
    assert values[0] > 0
    assert min(values) < max(values)  # a scheduler that starts again begins to count again
    assert open_run(tmp_path).metrics("kubelet_running_pods")


def test_only_changes_are_kept_and_nought_is_where_all_begin():
    moments = [0, SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND]
    lines = sampled([0, 2, 2, 0], moments)
    assert [(line["t"], line["value"]) for line in lines] == [(1, 2), (3, 0)]
    assert lines[0] == {
        "run": "r",
        "t": 1,
        "name": "pods",
        "type": "gauge",
        "labels": {"queue": "active"},
        "value": 2,
    }


def test_a_second_is_sampled_once_all_of_it_has_happened_and_once_only():
    halves = [0, SECOND // 2, SECOND, SECOND + 1, 10 * SECOND]
    lines = sampled([1, 2, 3, 4], halves)
    # At 0 s, at 1 s, and at 2 s, as which it stays until 10 s.
    assert [(line["t"], line["value"]) for line in lines] == [(0, 1), (1, 2), (2, 3)]


def test_of_a_long_run_samples_are_taken_more_and_more_rarely():
    moments = [at * SECOND for at in range(2 * MOST + 2)]
    lines = sampled(range(1, len(moments) + 1), moments)
    times = [line["t"] for line in lines]
    assert times[:3] == [0, 1, 2]
    assert {later - earlier for earlier, later in zip(times[MOST + 1 :], times[MOST + 2 :])} == {2}


def test_a_histogram_is_three_kinds_of_numbers_without_empty_buckets():
    value = Buckets((0.5, 1.0, 2.0), (2, 2, 3), 4, 9.5)
    family = Family("wait_seconds", "histogram", "Waits.", (Sample((), value),))
    assert list(rows_of([family])) == [
        Row("wait_seconds_bucket", "counter", (("le", "0.5"),), 2),
        Row("wait_seconds_bucket", "counter", (("le", "2"),), 3),
        Row("wait_seconds_bucket", "counter", (("le", "+Inf"),), 4),
        Row("wait_seconds_sum", "counter", (), 9.5),
        Row("wait_seconds_count", "counter", (), 4),
    ]
