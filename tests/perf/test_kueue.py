"""Kueue's scalability test: upstream's files are read, wrong ones refused by name, and all workloads finish."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.errors import UsageError
from controlplane.perf import kueue_files, kueue_runner

BENCH = Path(__file__).parents[2] / "bench" / "kueue"
SMALL = """
cohorts:
- className: cohort
  count: 1
  queuesSets:
  - className: cq
    count: 2
    nominalQuota: 5
    borrowingLimit: 5
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 4
      creationIntervalMs: 100
      workloads:
      - {className: small, runtimeMs: 200, priority: 50, request: 1}
    - count: 1
      creationIntervalMs: 150
      workloads:
      - {className: large, runtimeMs: 1000, priority: 200, request: 5}
"""
RANGES = """
cmd: {maxWallMs: 60_000}
clusterQueueClassesMinUsage: {cq: 1}
wlClassesMaxAvgTimeToAdmissionMs: {small: 10_000, large: 10}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "file.yaml"
    path.write_text(text)
    return path


def test_upstreams_baseline_is_read() -> None:
    (cohorts,) = kueue_files.load_generator(BENCH / "generator.yaml")
    (queues,) = cohorts.queues
    assert cohorts.count * queues.count * queues.workloads == 15_000
    ranges = kueue_files.load_ranges(BENCH / "rangespec.yaml")
    assert ranges.wait_ms == {"large": 23_000, "medium": 90_000, "small": 260_000}
    assert (ranges.usage, ranges.wall_ms) == ({"cq": 50}, 425_000)


def test_workloads_run_their_time_and_ranges_are_judged(tmp_path: Path) -> None:
    cohorts = kueue_files.load_generator(written(tmp_path, SMALL))
    result = kueue_runner.run(cohorts)
    assert not result.failed
    small, large = result.figures.workloads["small"], result.figures.workloads["large"]
    assert (small.count, small.finished, large.count, large.finished) == (8, 8, 2, 2)
    assert 1 <= result.virtual_s <= 10
    assert 10 < result.figures.queues["cq"].usage <= 100
    ranges = kueue_files.load_ranges(written(tmp_path, RANGES))
    kept = {name: kept for _, name, _, _, kept in result.verdicts(ranges)}
    assert kept == {"": True, "cq": True, "small": True, "large": large.mean_wait_ms <= 10}
    assert result.to_json(ranges)["workloads"]["small"]["count"] == 8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cohorts: []", "cohorts: expected a list"),
        ("topology: {}\ncohorts: []", "the file.topology: expected one of cohorts"),
        (
            SMALL.replace("count: 4", "count: few"),
            "workloadsSets[0].count: expected a whole number",
        ),
        (SMALL.replace("Any", "Some"), "reclaimWithinCohort: expected a policy of preemption"),
        (SMALL.replace("runtimeMs", "runtime"), "workloads[0].runtime: expected one of className"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        kueue_files.load_generator(written(tmp_path, text))
    assert told in str(refused.value)
