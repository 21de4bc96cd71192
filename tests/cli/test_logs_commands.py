"""Each command of `controlplane logs` on a real run: as a table and as JSON, and what it says about bad input."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest
import yaml

from tests.cli.test_logs import pod
from tests.cli.test_run import controlplane


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """What a run leaves whose second pod stays pending."""
    folder = tmp_path_factory.mktemp("cli")
    manifest = folder / "pods.yaml"
    manifest.write_text(yaml.safe_dump_all([pod("big", "100"), pod("small", "1")]))
    told = controlplane("run", manifest, "--nodes", 1, "--out", folder / "out", "--metrics")
    assert told.returncode == 0, told.stderr
    return folder / "out"


def good(answer, status=0) -> str:
    assert (answer[0], answer[2]) == (status, ""), answer
    return answer[1]


def lines_of(out) -> list[dict]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_summary(logs, out):
    text = good(logs("summary", out))
    assert "  quiescent: " in text
    assert "pods: 1 Pending, 1 Running" in text
    assert "1 conflicts" not in text
    (told,) = json.loads(good(logs("summary", out, "--format", "json")))
    assert (told["log"], told["events"]) == (str(out), len(lines_of(out)))
    assert told["slowest_pods"][0]["obj"] == "Pod/default/big"


def test_summary_of_several_runs_has_one_after_another(logs, out):
    told = json.loads(good(logs("summary", out, out / "log.jsonl", "--format", "json")))
    assert [each["log"] for each in told] == [str(out), str(out / "log.jsonl")]
    assert told[0]["actors"] == told[1]["actors"]


def test_events(logs, out):
    text = good(logs("events", out, "--object", "pod/small", "--event", "apiserver.write"))
    assert "created Pod/default/small by user" in text.splitlines()[0]
    found = good(logs("events", out, "--level", "info", "--format", "json", "--limit", 3))
    told = [json.loads(line) for line in found.splitlines()]
    wanted = [x for x in lines_of(out) if x.get("level") in ("info", "warning", "error")][:3]
    assert [(each["step"], each["event"]) for each in told] == [
        (each["step"], each["event"]) for each in wanted
    ]


def test_timeline(logs, out):
    text = good(logs("timeline", "pod/small", "--log", out))
    assert text.startswith("pod/default/small, uid ")
    assert "bound to node-1 by scheduler" in text
    told = json.loads(good(logs("timeline", "pod/small", "--log", out, "--format", "json")))
    assert len(told["incarnations"]) == 1


def test_why(logs, out):
    text = good(logs("why", "pod/big", "--log", out))
    assert text.startswith("pod/default/big: pending after ")
    told = json.loads(good(logs("why", "pod/small", "--log", out, "--format", "json")))
    assert told["ending"] == "Running, ready"
    step = told["causes"][0]["step"]
    of_step = json.loads(good(logs("why", step, "--log", out, "--format", "json", "--hops", 2)))
    assert (of_step["object"], len(of_step["causes"])) == (f"step {step}", 2)


def test_races(logs, out):
    told = json.loads(good(logs("races", out, "--format", "json")))
    text = good(logs("races", out, "--all"))
    assert text.startswith(f"{told['reads']:,} reads, {len(told['stale_reads'])} of them stale")


def test_diff(logs, out, tmp_path):
    assert good(logs("diff", out, out)) == "the two runs are the same, event by event\n"
    assert json.loads(good(logs("diff", out, out, "--format", "json"))) is None
    path = tmp_path / "log.jsonl"
    path.write_text((out / "log.jsonl").read_text().replace('"node":"node-1"', '"node":"node-7"'))
    text = good(logs("diff", out, path), 1)
    assert "chose node-1 for Pod/default/small" in text
    assert "chose node-7 for Pod/default/small" in text
    told = json.loads(good(logs("diff", out, path, "--format", "json"), 1))
    assert [each["event"]["data"]["node"] for each in told["decisions"]] == ["node-1", "node-7"]


def test_sql(logs, out):
    query = "SELECT verdict, steps FROM runs"
    text = good(logs("sql", query, "--log", out))
    assert "quiescent" in text
    (row,) = json.loads(good(logs("sql", query, "--log", out, "--format", "json")))
    steps = sum("level" not in line for line in lines_of(out))
    assert row == {"verdict": "quiescent", "steps": steps}


def test_sql_values_that_json_lacks(logs, out):
    query = "SELECT 1.5 AS a, [DATE '2020-01-02'] AS b, 'nan'::DOUBLE AS c, {'d': 2.0} AS e"
    (row,) = json.loads(good(logs("sql", query, "--log", out, "--format", "json")))
    assert row == {"a": 1.5, "b": ["2020-01-02"], "c": None, "e": {"d": 2}}


def test_stats(logs, out):
    text = good(logs("stats", out))
    assert "pod: create to bound" in text
    told = json.loads(good(logs("stats", out, "--format", "json")))
    assert told["latencies"]["pod: create to bound"]["count"] == 1
    assert told["refused_nodes_by_plugin"]["NodeResourcesFit"] >= 1


@pytest.mark.parametrize("form", ["perfetto", "shiviz", "otlp", "audit", "klog", "lnav"])
def test_export(logs, out, tmp_path, form):
    text = good(logs("export", out, "--format", form))
    target = tmp_path / "exported"
    assert good(logs("export", out, "--format", form, "-o", target)) == ""
    assert target.read_text() == text != ""
    assert target.stat().st_mode & 0o077 == 0


def test_shiviz_shows_steps_and_says_so_where_there_are_none(logs, out, tmp_path):
    path = tmp_path / "log.jsonl"
    lines = (out / "log.jsonl").read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"level"' in line))
    status, text, error = logs("export", path, "--format", "shiviz", "-o", tmp_path / "x")
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert "it has no steps, which are ShiViz's events" in error
    assert not (tmp_path / "x").exists()
    assert (
        "it has no steps of nobody"
        in logs("export", out, "--format", "shiviz", "--actor", "nobody")[2]
    )


def test_parquet_needs_a_file(logs, out, tmp_path):
    assert logs("export", out, "--format", "parquet") == (
        2,
        "",
        "controlplane: parquet is no text: name a file with -o FILE\n",
    )
    target = tmp_path / "events.parquet"
    assert good(logs("export", out, "--format", "parquet", "-o", target)) == ""
    assert target.read_bytes()[:4] == b"PAR1"


def test_a_packed_log_answers_as_the_log_does(logs, out, tmp_path):
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress((out / "log.jsonl").read_bytes()))
    for command in (("stats",), ("races",), ("export", "--format", "klog")):
        name, *rest = command
        assert logs(name, packed, *rest) == logs(name, out, *rest)
    query = "SELECT count(*) AS n, max(step) AS last FROM events"
    assert logs("sql", query, "--log", tmp_path) == logs("sql", query, "--log", out)


@pytest.mark.slow
def test_a_recording_is_repeated_for_its_log(logs, out, tmp_path):
    recording = tmp_path / "run.rec"
    shutil.copy(out / "run.rec", recording)
    wanted = good(logs("stats", out))
    assert good(logs("stats", recording)) == wanted
    assert good(logs("stats", tmp_path)) == wanted  # a folder with a recording alone
    query = "SELECT events, steps, verdict FROM runs"
    assert good(logs("sql", query, "--log", recording)) == good(logs("sql", query, "--log", out))
    assert [path.name for path in tmp_path.iterdir()] == ["run.rec"]


def test_a_log_that_ends_in_a_line_is_read_and_said_to(logs, out, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes((out / "log.jsonl").read_bytes()[:-10])
    status, text, said = logs("summary", path)
    assert (status, "the log does not say how it ended" in text) == (0, True)
    assert said.startswith(f"controlplane: {path}: it ends in the middle of line ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["why", "pod/smal"],
            "pod/default/smal: the log says nothing about it; did you mean Pod/default/small",
        ),
        (
            ["timeline", "po/smal"],
            "pod/default/smal: the log says nothing about it; did you mean Pod/default/small",
        ),
        (
            ["timeline", "smal"],
            "smal: expected KIND/NAMESPACE/NAME or KIND/NAME, as pod/default/web-0",
        ),
        (["why", "99999"], "step 99999: the log has no such step; the last one is "),
        (["why", "1", "--hops", "0"], "Invalid value for '--hops': 0 is not in the range x>=1."),
        (["sql", "SELEC"], "Parser Error: syntax error at or near"),
        (["sql", ""], "the query asks for nothing"),
    ],
)
def test_bad_questions_get_one_line(logs, out, arguments, said):
    status, text, error = logs(*arguments, "--log", out)
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"controlplane: {said}")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--steps", "nan"),
        ("--steps", "9-1"),
        ("--time", "x"),
        ("--limit", "-1"),
        ("--level", "loud"),
        ("--object", "a/b/c/d"),
    ],
)
def test_bad_filters_get_one_line(logs, out, option, value):
    status, text, error = logs("events", out, option, value)
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert value in error


@pytest.mark.parametrize("command", ["summary", "events", "races", "stats"])
def test_what_is_no_log_gets_one_line(logs, tmp_path, command):
    missing = tmp_path / "none"
    assert logs(command, missing)[::2] == (
        2,
        f"controlplane: {missing}: no such log; a run with --out DIR writes one\n",
    )
    other = tmp_path / "other"
    other.write_text("objects: []\n")
    assert logs(command, other)[::2] == (
        2,
        f"controlplane: {other}, line 1: expected an event of a log (a JSON object)\n",
    )
    broken = tmp_path / "broken.rec"
    broken.write_bytes(b"\x00 no recording")
    status, _, error = logs(command, broken)
    assert (status, error.count("\n")) == (2, 1)


def test_a_packed_log_is_not_followed(logs, tmp_path):
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(b"{}\n"))
    assert logs("events", packed, "--follow") == (
        2,
        "",
        f"controlplane: {packed}: a packed log does not grow: read it without --follow\n",
    )


def test_metrics_over_virtual_time(logs, out):
    names = good(logs("metrics", "--log", out))
    assert "scheduler_pending_pods" in names
    told = json.loads(
        good(logs("metrics", "scheduler_pending_pods", "--log", out, "--format", "json"))
    )
    assert [each["labels"] for each in told] == [{"queue": "unschedulable"}]
    series = good(logs("metrics", "*_pods*", "--log", out))
    assert "queue=unschedulable" in series
    (points,) = (
        good(logs("metrics", name, "--log", out, "--label", "queue=unschedulable"))
        for name in ("scheduler_pending_pods",)
    )
    assert points.splitlines()[0] == "scheduler_pending_pods queue=unschedulable"
    status, _, said = logs("metrics", "scheduler_pending_pds", "--log", out)
    assert (status, said.count("\n")) == (2, 1)
    assert "no metric 'scheduler_pending_pds'; did you mean scheduler_pending_pods" in said
    assert logs("metrics", "--label", "queue", "--log", out)[0] == 2


def test_metrics_of_a_run_that_kept_none(logs, out, tmp_path):
    shutil.copy(out / "log.jsonl", tmp_path)
    status, _, said = logs("metrics", "--log", tmp_path)
    assert status == 2
    assert "--metrics writes one" in said


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", ["summary", "stats", "races"])
def test_what_is_damaged_is_said_beside_every_form_of_answer(logs, out, tmp_path, command, form):
    text = (out / "log.jsonl").read_text()
    (tmp_path / "log.jsonl").write_text(text.replace('"event":"task"', '"event":"task', 1))
    status, answer, said = logs(command, tmp_path, "--format", form)
    assert status == 0
    assert answer
    assert said.endswith("1 line is no event, first line 2; the rest was read\n")
    assert said.count("\n") == 1


RUN_COMMANDS = {
    "why": ["pod/small"],
    "timeline": ["pod/small"],
    "summary": [],
    "stats": [],
    "metrics": ["scheduler_pending_pods"],
    "events": ["--limit", "3"],
    "races": [],
    "sql": ["SELECT verdict FROM runs"],
    "export": ["--format", "klog"],
}


@pytest.mark.parametrize("command", RUN_COMMANDS)
def test_the_run_is_an_argument_or_an_option(logs, out, command):
    asked = RUN_COMMANDS[command]
    told = good(logs(command, *asked, out))
    assert told == good(logs(command, *asked, "--log", out))
    assert told == good(logs(command, "--log", out, *asked))


def test_all_subcommands_that_read_a_run_take_it_both_ways():
    from controlplane.cli.logs import command

    assert {*command.commands} == {*RUN_COMMANDS, "diff", "report", "schema"}
    for name, each in command.commands.items():
        if name != "schema":
            assert {"runs", "logged"} <= {param.name for param in each.params}, name


def test_two_runs_are_compared_by_options(logs, out):
    assert logs("diff", "--log", out, "--log", out)[0] == 0
    assert logs("diff", out, "--log", out)[0] == 0
    status, _, error = logs("diff", out)
    assert (status, error) == (2, "controlplane: expected RUN RUN, found 1 run\n")


def test_one_run_is_not_two(logs, out):
    status, _, error = logs("stats", out, "--log", out)
    assert (status, error) == (2, f"controlplane: expected one RUN, found {out}, {out}\n")


def test_metrics_of_a_run_without_a_name(logs, out):
    assert good(logs("metrics", out)) == good(logs("metrics", "--log", out))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--event", "apiserver.wirte", "no event 'apiserver.wirte'; did you mean apiserver.write"),
        ("--event", "scheduler.cycle.beginn", "did you mean scheduler."),
        ("--event", "nope*", "no event 'nope*'"),
        ("--actor", "schduler", "no actor 'schduler'; did you mean scheduler"),
        ("--kind", "pdo", "no kind 'pdo'; did you mean pod"),
    ],
)
def test_unknown_names_in_a_filter_are_refused_with_near_ones(logs, out, option, value, said):
    status, text, error = logs("events", out, option, value)
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert said in error


@pytest.mark.parametrize(
    ("option", "value"),
    [("--event", "kubelet.evicted"), ("--kind", "Job"), ("--event", "kubelet.*")],
)
def test_known_names_of_which_the_log_has_none_are_no_error(logs, out, option, value):
    assert logs("events", out, "--object", "node/none", option, value) == (0, "", "")


def test_kinds_in_a_filter_may_be_short_or_plural(logs, out):
    told = good(logs("events", out, "--kind", "Pod", "--event", "apiserver.write"))
    assert told
    for kind in ("po", "pods", "pod"):
        assert good(logs("events", out, "--kind", kind, "--event", "apiserver.write")) == told


def test_events_tell_what_the_scheduler_believed(logs, out):
    text = good(logs("events", out, "--event", "scheduler.believed", "--object", "pod/small"))
    assert "for Pod/default/small believed of node-1 (version " in text
    assert "cpu " in text and " MiB requested" in text
