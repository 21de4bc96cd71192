"""Every golden file that has an adapter must agree, case by case."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.golden.__main__ import main
from tests.golden.answer_kubectl_requests import RELEASE
from tests.golden.kubectl_world import AT_ONCE, kubectl_of
from tests.golden.runner import (
    DATA,
    UNANSWERED,
    Adapter,
    Case,
    adapter_for,
    difference,
    golden_files,
    label,
    read_cases,
    run_case,
    run_file,
    stem,
)

KUBECTL_REQUESTS = DATA / "api" / "kubectl_requests.jsonl.xz"
OPEN_WITH_KUBECTL = {"kubectl/explain"}  # it prints descriptions, and ours are other words
BYTES_PER_SHARD = 30_000
OPEN_CASES = Path(__file__).parent / "open_cases.txt"
SLOW = (
    "api/controllers",
    "api/crud",
    "api/defaulting_validation",
    "autoscaler/runonce",
    "controllers/nodelifecycle",
    "dra/cel",
    "kubelet/node_admission",
    "snapshots/metrics",
    "snapshots/traces_restore",
)
"""Files of which one shard takes more than a second: no quick test answers any."""
VERY_SLOW = {
    "snapshots/traces_group": 4,
    "snapshots/traces_single": 4,
    "scheduler/schedule_sequence": 2,
}
"""Number of parts of a slow file: CI answers one part, nightly runs answer all. One case takes seconds."""
QUICK_SHARDS = 1
"""Shards of one file that the quick tests answer; the rest are slow tests."""


@pytest.fixture(autouse=True)
def recorded_requests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl itself takes its time: it runs in a test of its own."""
    monkeypatch.setenv("GOLDEN_KUBECTL", "replay")


def shards() -> list[pytest.param]:
    found = []
    for path in golden_files([DATA]):
        if adapter_for(path) is not None:
            count = 1 + path.stat().st_size // BYTES_PER_SHARD
            if label(path) in VERY_SLOW:
                count *= VERY_SLOW[label(path)]
            for shard in range(count):
                name = f"{label(path)}-{shard + 1}of{count}"
                marks = marks_of(label(path), shard, count)
                found.append(pytest.param(path, shard, count, id=name, marks=marks))
    return found


def marks_of(file: str, shard: int, count: int) -> tuple[pytest.MarkDecorator, ...]:
    """Return when a shard is answered: always, in CI, or nightly."""
    if file in VERY_SLOW:
        return (pytest.mark.slow if shard % VERY_SLOW[file] == 0 else pytest.mark.nightly,)
    return (pytest.mark.slow,) if file in SLOW or shard >= QUICK_SHARDS else ()


def open_cases() -> dict[str, None]:
    """Cases that we are known to answer wrongly, as `area/file case`: a list that may only shrink."""
    lines = OPEN_CASES.read_text(encoding="utf-8").splitlines()
    return dict.fromkeys(line for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize(("path", "shard", "count"), shards())
def test_agrees_with_real_kubernetes(path: Path, shard: int, count: int) -> None:
    tally = run_file(path, shard, count)
    known = open_cases()
    new = [(case, text) for case, text in tally.failures if f"{label(path)} {case}" not in known]
    shown = "\n".join(f"{case}: {text[:300]}" for case, text in new[:10])
    assert not new, f"passed {tally.passed}, failed {tally.failed}; new failures:\n{shown}"
    mended = [case for case in tally.agreed if f"{label(path)} {case}" in known]
    assert not mended, f"these agree now; take them off {OPEN_CASES.name}: {mended}"


TRIES = 8


@pytest.mark.slow
@pytest.mark.skipif(kubectl_of(RELEASE) is None, reason=f"there is no kubectl {RELEASE}")
def test_kubectl_itself_cannot_tell_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOLDEN_KUBECTL")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tallies = list(pool.map(lambda at: run_file(KUBECTL_REQUESTS, at, 16), range(16)))
    assert {tally.note for tally in tallies} == {f"kubectl {RELEASE} itself"}
    failures = [failure for tally in tallies for failure in tally.failures]
    new = {case for case, _ in failures} - OPEN_WITH_KUBECTL
    # kubectl prints some maps in whatever order they come: what differs is asked again.
    adapter = adapter_for(KUBECTL_REQUESTS)
    assert adapter is not None
    again = [case for case in read_cases(KUBECTL_REQUESTS) if case.id in new]
    for case in again:
        assert any(run_case(adapter, case) is None for _ in range(TRIES)), failures


def test_a_report_says_when_only_statuses_were_compared() -> None:
    assert "statuses of the recorded requests only" in str(run_file(KUBECTL_REQUESTS, 0, 19))


def test_a_replayed_request_with_another_status_is_a_difference() -> None:
    adapter = adapter_for(KUBECTL_REQUESTS)
    assert adapter is not None
    case = next(case for case in read_cases(KUBECTL_REQUESTS) if case.id == "kubectl/get_pods")
    case.want["commands"][0]["requests"][0]["status"] = 418
    found = run_case(adapter, case)
    assert isinstance(found, str)
    assert "want status 418, got 200" in found


def test_the_stored_copies_cover_the_scheduler_files() -> None:
    names = {stem(path) for path in golden_files([DATA], "scheduler")}
    assert names >= {"apimachinery", "queue_trace", "plugins_filter_score", "preemption"}


@pytest.mark.parametrize(
    ("want", "got", "place"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "want.a[1].b"),
        ({"a": 1}, {}, "want.a: expected 1, got nothing"),
        ({}, {"a": 1}, "want.a: expected nothing, got 1"),
        ({"a": [1]}, {"a": [1, 2]}, "want.a: expected 1 entries"),
        ({"a": True}, {"a": 1}, "want.a"),
    ],
)
def test_the_first_difference_is_named_by_its_path(want: object, got: object, place: str) -> None:
    found = difference(want, got)
    assert found is not None
    assert place in found


def test_tuples_count_as_lists() -> None:
    assert difference({"a": [1, [2]]}, {"a": (1, (2,))}) is None


def test_a_fault_of_ours_is_a_failed_case() -> None:
    def broken(_: object) -> object:
        raise RuntimeError("boom")

    result = run_case(Adapter(broken, difference), Case("x", {}, {}))
    assert isinstance(result, str)
    assert result.startswith("RuntimeError: boom (test_golden.py:")


def test_a_case_may_stay_unanswered() -> None:
    adapter = Adapter(lambda _: UNANSWERED, difference)
    assert run_case(adapter, Case("x", {}, {})) is UNANSWERED


def test_the_command_reports_counts_and_fails_on_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "scheduler"
    folder.mkdir()
    good = '{"id":"g","in":{"kind":"quantity.cmp","a":"1","b":"2"},"want":{"cmp":-1}}\n'
    (folder / "apimachinery.jsonl").write_text(good + good.replace("-1", "1"))
    (folder / "nobody_answers.jsonl").write_text(good)
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "scheduler/apimachinery: passed 1, failed 1, unanswered 0",
        "  g: want.cmp: expected 1, got -1",
        "scheduler/nobody_answers: passed 0, failed 0, unanswered 1",
    ]
