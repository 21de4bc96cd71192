"""Answers in notebooks: dicts and lists as ever, drawn as tables."""

from __future__ import annotations

import json

from controlplane.logs import Run
from controlplane.logs.notebooks import ROWS, Fields, Records, html
from controlplane.scenarios.search.tally import Tally


def test_records_are_a_table_with_a_column_for_each_key():
    drawn = Records([{"a": 1, "b": "<x>"}, {"a": None, "c": [1, 2]}])._repr_html_()
    assert "<th>a</th><th>b</th><th>c</th>" in drawn
    assert "<td>&lt;x&gt;</td>" in drawn
    assert "<td>1, 2</td>" in drawn


def test_fields_stay_plain_dicts_and_are_drawn_nested():
    told = Fields({"verdict": "quiescent", "pods": [{"name": "a&b"}]})
    assert told == json.loads(json.dumps(told))
    assert "<td>a&amp;b</td>" in told._repr_html_()


def test_long_tables_are_cut_and_say_so():
    drawn = html([{"a": number} for number in range(ROWS + 5)])
    assert drawn.count("<tr>") == ROWS + 1
    assert "and 5 more" in drawn


def test_a_run_and_its_answers_are_drawn(run_log):
    run = Run(run_log)
    assert f"<td>{run.summary()['verdict']}</td>" in run._repr_html_()
    for answer in (
        run.summary(),
        run.stats(),
        run.races(),
        run.why("pod/a"),
        run.timeline("pod/a"),
    ):
        assert answer._repr_html_().startswith("<table>")


def test_a_search_is_drawn():
    assert "nothing broke" in Tally()._repr_html_()
