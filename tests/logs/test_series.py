"""Numbers over virtual time, read back and shown."""

from __future__ import annotations

import json

import pytest

from controlplane.errors import UsageError
from controlplane.logs import series
from controlplane.logs.reading import RunLog
from controlplane.logs.sql import query

LINES = [
    {
        "t": 1,
        "name": "pods",
        "type": "gauge",
        "labels": {"queue": "active"},
        "value": 2,
        "run": "r",
    },
    {
        "t": 1,
        "name": "pods",
        "type": "gauge",
        "labels": {"queue": "backoff"},
        "value": 1,
        "run": "r",
    },
    {
        "t": 3.5,
        "name": "pods",
        "type": "gauge",
        "labels": {"queue": "active"},
        "value": 0,
        "run": "r",
    },
    {"t": 2, "name": "tries_total", "type": "counter", "labels": {}, "value": 7, "run": "r"},
]


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "log.jsonl").write_text(
        '{"actor":"world","event":"log","level":"debug","run":"r","step":0,"t":0,"task":"world"}\n'
    )
    path = tmp_path / series.NAME
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def test_series_are_told_apart_by_name_and_labels(kept):
    found = series.read(kept)
    assert [(each.name, dict(each.labels), each.points) for each in found] == [
        ("pods", {"queue": "active"}, [(1, 2), (3.5, 0)]),
        ("pods", {"queue": "backoff"}, [(1, 1)]),
        ("tries_total", {}, [(2, 7)]),
    ]
    assert [each.points for each in series.read(kept, "po*", {"queue": "backoff"})] == [[(1, 1)]]
    assert series.read(kept, "other") == []


def test_a_run_without_numbers_says_how_to_get_them(tmp_path):
    with pytest.raises(UsageError, match="--out DIR --metrics"):
        series.beside(tmp_path / "log.jsonl")


def test_a_damaged_line_is_named(kept):
    kept.write_text('{"t": 1}\n')
    with pytest.raises(UsageError, match=r"metrics.jsonl, line 1: "):
        series.read(kept)


def test_sql_has_them_as_a_table(kept, tmp_path):
    text = (
        "SELECT labels->>'queue', max(value) FROM metrics WHERE name = 'pods' GROUP BY 1 ORDER BY 1"
    )
    assert query([RunLog(tmp_path / "log.jsonl")], text)[1] == [("active", 2.0), ("backoff", 1.0)]


def test_sql_has_an_empty_table_for_runs_without(tmp_path, kept):
    kept.unlink()
    assert query([RunLog(tmp_path / "log.jsonl")], "SELECT count(*) FROM metrics")[1] == [(0,)]


def test_duckdb_reads_the_file_as_it_is(kept):
    import duckdb

    with duckdb.connect() as database:  # the default connection would stay until the process ends
        found = database.execute(f"SELECT sum(value) FROM '{kept}' WHERE labels.queue = 'active'")
        assert found.fetchall() == [(2,)]


@pytest.mark.parametrize(
    ("points", "picture"),
    [
        ([], ""),
        ([(0, 8)], "████"),
        ([(0, 0), (4, 8)], "   █"),
        ([(0, 8), (1, 4), (2, 0)], "██▅ "),
    ],
)
def test_a_picture_has_a_bar_for_each_stretch_of_time(points, picture):
    assert series.sparkline(points, 4, 4) == picture
