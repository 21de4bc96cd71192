"""SQL over logs: each table has the rows that the log has, packed or not, and mistakes are told in a line."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from controlplane.errors import UsageError
from controlplane.logs import open_run
from controlplane.logs.exporting import to_parquet
from controlplane.logs.reading import RunLog
from controlplane.logs.sql import TABLES, connect, query
from controlplane.logs.summary import summarise


def value(log, text):
    ((found,),) = query([log], text)[1]
    return found


def test_each_table_has_the_columns_that_are_told(run_log):
    for table, said in TABLES.items():
        names, rows = query([run_log], f"SELECT * FROM {table}")
        assert rows, table
        told = {word for word in said.rpartition(": ")[2].split(", ") if " " not in word}
        assert told <= set(names), table


def test_numbers_agree_with_the_summary(run_log):
    told = summarise(run_log)
    ((*row,),) = query(
        [run_log], "SELECT run, scenario, seed, events, steps, t, verdict, reason FROM runs"
    )[1]
    assert row == [
        told.run,
        "logged",
        1,
        told.events,
        told.steps,
        told.t,
        told.verdict,
        told.reason,
    ]
    assert value(run_log, "SELECT count(*) FROM steps") == told.steps
    messages = sum(actor.messages for actor in told.actors.values())
    assert value(run_log, "SELECT count(*) FROM messages") == messages
    verbs = query([run_log], "SELECT verb, count(*) FROM writes WHERE code < 300 GROUP BY 1")[1]
    assert dict(verbs) == told.writes
    conflicts = "SELECT count(*) FROM writes WHERE code = 409 AND reason = 'Conflict'"
    assert value(run_log, conflicts) == told.conflicts
    failed = "SELECT count(*) FROM decisions WHERE decision = 'scheduler.failed'"
    assert value(run_log, failed) == told.failed_attempts


def test_objects_are_incarnations_with_their_birth_and_end(run_log):
    rows = query([run_log], "SELECT created, gone FROM objects WHERE kind = 'Pod' AND name = 'b'")
    assert rows[1] == [(0.0, 11.0), (11.0, None)]
    kinds = "SELECT kind, namespace FROM objects WHERE name = 'node-1'"
    assert sorted(query([run_log], kinds)[1]) == [("Lease", "kube-node-lease"), ("Node", "")]
    assert value(run_log, "SELECT sum(writes) FROM objects") == value(
        run_log, "SELECT count(*) FROM writes WHERE code < 300 AND uid IS NOT NULL"
    )


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("name", ["packed", "x.gz"])
def test_packed_logs_are_asked_like_others_whatever_their_name(
    log_file, run_log, tmp_path, pack, name
):
    path = tmp_path / name
    path.write_bytes(pack(log_file.read_bytes()))
    log = RunLog(path, "mine")
    wanted = [("mine", summarise(run_log).events)]
    assert query([log], "SELECT file, events FROM runs")[1] == wanted
    left = log.plain()
    assert left.stat().st_mode & 0o077 == 0
    del log
    assert not left.exists()


def test_a_log_whose_file_has_gone_since_is_asked_like_others(log_file, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_file.read_bytes())
    log = RunLog(path)
    path.unlink()
    assert value(log, "SELECT count(*) FROM events") == len(list(log))


def test_several_runs_are_told_apart(run_log, other_log_file):
    other = RunLog(other_log_file, "other")
    rows = query([run_log, other], "SELECT file, seed FROM runs")[1]
    assert rows == [("other", 2), ("run", 1)]
    quoted = RunLog(other_log_file, "it's")
    assert query([quoted], "SELECT file FROM runs")[1] == [("it's",)]


def test_logs_of_before_levels_have_the_same_steps(run_log, plain_lines, tmp_path):
    path = tmp_path / "log.jsonl"
    old = [{key: each for key, each in line.items() if key != "level"} for line in plain_lines[1:]]
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    for text in (
        "SELECT count(*) FROM steps",
        "SELECT count(*) FROM events WHERE level IN ('info', 'warning')",
    ):
        assert value(RunLog(path), text) == value(run_log, text) > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nothing", "nothing does not exist"),
        ("SELECT nobody FROM runs", "nobody"),
        ("SELECT CAST(actor AS INTEGER) FROM events", "Could not convert"),
        ("", "asks for nothing"),
        ("-- nothing", "asks for nothing"),
    ],
)
def test_a_wrong_query_is_told_in_one_line(run_log, text, said):
    with pytest.raises(UsageError, match=said) as raised:
        query([run_log], text)
    assert "\n" not in str(raised.value)


def test_an_empty_log_has_tables_without_rows(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"")
    for table in TABLES:
        assert query([RunLog(path)], f"SELECT * FROM {table}")[1] == []


def test_parquet_holds_every_event(run_log, tmp_path):
    target = tmp_path / "it's.parquet"
    to_parquet(run_log, target)
    database = connect([run_log])
    found = database.read_parquet(str(target)).aggregate("count(*), max(step), min(file)")
    assert found.fetchall() == [(len(list(run_log)), run_log.last().step, "run")]
    assert target.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="cannot be written"):
        to_parquet(run_log, tmp_path / "none" / "x.parquet")


def test_notebooks_get_plain_rows(log_file):
    run = open_run(log_file)
    assert run.sql("SELECT seed FROM runs").fetchall() == [(1,)]
