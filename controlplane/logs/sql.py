"""SQL over logs, by DuckDB (extra `sql`): nothing is loaded, the lines are read as a query needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError
from controlplane.logs.reading import RunLog
from controlplane.logs.series import NAME as METRICS
from controlplane.logs.vocabulary import LEVEL_OF

if TYPE_CHECKING:
    import duckdb

TABLES = {
    "events": "every line: run, file, step, t, actor, task, event, level, obj, uid, rv, cause, data",
    "steps": "the steps: run, step, t, actor, task, point, cause",
    "messages": "messages taken: run, step, t, actor, task, sender, message, cause",
    "writes": "answers of the API server to writes: verb, code, reason, by, based_on, node, phase, ready",
    "decisions": "scheduling attempts, admissions, evictions, preemptions: node, attempt, reason, message",
    "objects": "each incarnation of each object: kind, namespace, name, uid, created, gone, writes",
    "metrics": "what components counted, where the run kept it: run, t, name, type, labels, value",
    "runs": "one row a run: run, file, scenario, seed, events, steps, t, verdict, reason",
}
_COLUMNS = {
    "run": "VARCHAR",
    "step": "BIGINT",
    "t": "DOUBLE",
    "actor": "VARCHAR",
    "task": "VARCHAR",
    "event": "VARCHAR",
    "level": "VARCHAR",
    "obj": "VARCHAR",
    "uid": "VARCHAR",
    "rv": "BIGINT",
    "cause": "BIGINT[]",
    "data": "JSON",
}
_VIEWS = """
CREATE VIEW steps AS
  SELECT run, step, t, actor, task, event AS point, cause FROM events WHERE level IS NULL;
CREATE VIEW messages AS
  SELECT run, step, t, actor, task, data->>'from' AS sender, data->>'message' AS message, cause
  FROM events WHERE event = 'message';
CREATE VIEW writes AS
  SELECT run, step, t, obj, uid, rv, data->>'verb' AS verb, CAST(data->>'code' AS INTEGER) AS code,
         data->>'reason' AS reason, data->>'by' AS "by", CAST(data->>'based_on' AS BIGINT) AS based_on,
         data->>'node' AS node, data->>'phase' AS phase, CAST(data->>'ready' AS BOOLEAN) AS ready
  FROM events WHERE event = 'apiserver.write';
CREATE VIEW decisions AS
  SELECT run, step, t, actor, event AS decision, obj, uid, data->>'node' AS node,
         CAST(data->>'attempt' AS INTEGER) AS attempt, data->>'reason' AS reason,
         data->>'message' AS message, data
  FROM events WHERE event IN ('scheduler.assumed', 'scheduler.failed', 'scheduler.preemption',
    'kubelet.admitted', 'kubelet.rejected', 'kubelet.evicted', 'pod.evicted');
CREATE VIEW objects AS
  SELECT run, split_part(obj, '/', 1) AS kind,
         CASE WHEN len(string_split(obj, '/')) > 2 THEN split_part(obj, '/', 2) ELSE '' END AS namespace,
         string_split(obj, '/')[-1] AS name, uid,
         min(t) FILTER (verb LIKE 'create %' AND verb NOT LIKE '%/%') AS created,
         coalesce(min(t) FILTER (event = 'apiserver.removed'),
                  max(t) FILTER (verb LIKE 'delete %' AND NOT terminating), min(t) FILTER (told)) AS gone,
         count(*) FILTER (event = 'apiserver.write') AS writes
  FROM (SELECT run, t, obj, uid, event, data->>'verb' AS verb, event = 'informer.told' AS told,
               data->>'terminating' IS NOT NULL AS terminating
        FROM events
        WHERE uid IS NOT NULL
          AND ((event = 'apiserver.write' AND CAST(data->>'code' AS INTEGER) < 300)
            OR event = 'apiserver.removed'
            OR (event = 'informer.told' AND data->>'kind' = 'delete')))
  GROUP BY run, obj, uid ORDER BY run, created, obj;
CREATE VIEW runs AS
  SELECT run, file,
         any_value(data->>'scenario') FILTER (event = 'log') AS scenario,
         any_value(CAST(data->>'seed' AS BIGINT)) FILTER (event = 'log') AS seed,
         count(*) AS events, count(*) FILTER (level IS NULL) AS steps, max(t) AS t,
         any_value(data->>'verdict') FILTER (event = 'verdict') AS verdict,
         any_value(data->>'reason') FILTER (event = 'verdict') AS reason
  FROM events GROUP BY run, file ORDER BY file, run;
"""


def connect(logs: Sequence[RunLog]) -> duckdb.DuckDBPyConnection:
    """A database whose tables are these logs (`TABLES`). Raises UsageError without DuckDB."""
    try:
        import duckdb
    except ImportError:
        raise UsageError("SQL needs the package duckdb: pip install 'controlplane[sql]'") from None
    database = duckdb.connect(":memory:")
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS.items())
    names = {str(log.plain()): log.name for log in logs}
    files = ", ".join(map(_quoted, names))
    called = _cases(names)
    level = "level"
    if any(log.without_levels for log in logs):
        level = f"coalesce(level, CASE event {_cases(LEVEL_OF)} END)"
    database.execute(
        f"CREATE VIEW events AS SELECT CASE filename {called} END AS file,"  # noqa: S608 - quoted
        f" * EXCLUDE (filename) REPLACE ({level} AS level)"
        f" FROM read_json([{files}], format='newline_delimited', columns={{{columns}}},"
        " filename=true, ignore_errors=true, maximum_object_size=67108864)"
    )
    database.execute(_VIEWS)
    database.execute(_metrics(logs))
    return database


def _metrics(logs: Sequence[RunLog]) -> str:
    """The view of what was counted over time: of the runs that kept it, else an empty one."""
    columns = {
        "run": "VARCHAR",
        "t": "DOUBLE",
        "name": "VARCHAR",
        "type": "VARCHAR",
        "labels": "JSON",
        "value": "DOUBLE",
    }
    files = [str(path) for log in logs if (path := log.path.parent / METRICS).is_file()]
    if not files:
        empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in columns.items())
        return f"CREATE VIEW metrics AS SELECT {empty} WHERE false"
    shape = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
    return (
        f"CREATE VIEW metrics AS SELECT * FROM read_json([{', '.join(map(_quoted, files))}],"  # noqa: S608 - quoted
        f" format='newline_delimited', columns={{{shape}}}, ignore_errors=true)"
    )


def query(logs: Sequence[RunLog], text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a query. Raises UsageError, with DuckDB's own words, for one that is wrong."""
    database = connect(logs)
    import duckdb

    try:
        found = database.execute(text)
        if found is None or found.description is None:
            raise UsageError("the query asks for nothing: expected SQL, as SELECT * FROM runs")
        return [each[0] for each in found.description], found.fetchall()
    except duckdb.Error as error:
        first = str(error).strip().split("\n\n")[0]
        raise UsageError(f"{' '.join(first.split())}") from None
    finally:
        database.close()


def _cases(values: Mapping[str, str]) -> str:
    return " ".join(f"WHEN {_quoted(key)} THEN {_quoted(value)}" for key, value in values.items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
