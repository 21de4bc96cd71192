"""Progress on standard error."""

from __future__ import annotations

import pytest

from controlplane.cli import output


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    return now


def test_in_a_pipe_there_is_a_line_each_half_minute(clock, capsys):
    progress = output.Progress()
    for second in range(100):
        clock[0] = float(second)
        progress.show(f"at {second}")
    progress.clear()
    assert capsys.readouterr().err == "at 30\nat 60\nat 90\n"


def test_shrinking_tells_how_far_it_is(clock, capsys, monkeypatch):
    from controlplane.scenarios.engine.plan import plan_of
    from controlplane.scenarios.search import loading, shrinking
    from controlplane.scenarios.search.exploring import Campaign
    from tests.cli.test_interruption import LOST_UPDATE

    campaign = Campaign(plan_of(loading.from_file(LOST_UPDATE)), "random-walk")
    (finding,) = campaign.explore(300).findings
    told: list[int] = []
    short = shrinking.shorten(campaign.plan, finding.result.choices, runs=20, progress=told.append)
    assert told == list(range(len(told)))
    assert len(told) >= short.shrunk.runs > 0
