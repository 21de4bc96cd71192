"""Listings at 80 columns: no line is longer, and no column is so narrow that its text becomes a rag."""

from __future__ import annotations

import pytest
import yaml

from controlplane.cli import columns, output
from tests.cli.test_logs import pod
from tests.cli.test_run import controlplane

WIDTH = 80


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run with a pending pod and a long name; what the command printed at 80 columns is beside it."""
    folder = tmp_path_factory.mktemp("width")
    pods = [pod("big", "100"), pod("a-pod-with-a-rather-long-name-of-its-own-as-some-have", "1")]
    (folder / "pods.yaml").write_text(yaml.safe_dump_all(pods))
    told = controlplane(
        "run", folder / "pods.yaml", "--nodes", 2, "--out", folder / "out", "--metrics",
        COLUMNS=str(WIDTH),
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    (folder / "out" / "printed").write_text(told.stdout)
    return folder / "out"


def too_long(text: str) -> list[str]:
    """The lines that are longer, but for those with a command to paste, which is not broken."""
    return [line for line in text.splitlines() if len(line) > WIDTH and "`" not in line]


def test_run(run):
    assert not too_long((run / "printed").read_text().replace(str(run), "OUT"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        ["logs", "summary"],
        ["logs", "stats"],
        ["logs", "races", "--all"],
        ["logs", "metrics"],
        ["logs", "metrics", "scheduler_*"],
        ["logs", "why", "pod/big"],
        ["logs", "why", "pod/a-pod-with-a-rather-long-name-of-its-own-as-some-have"],
        ["logs", "why", "100"],
        ["logs", "timeline", "pod/big"],
        ["logs", "sql", "SELECT * FROM writes"],
        ["logs", "sql", "SELECT * FROM decisions"],
        ["race", "list"],
        ["race", "list", "--wide"],
        ["race", "gates"],
        ["race", "show", "138324"],
        ["race", "power", "--schedules", "1", "--jobs", "1"],
    ],
    ids=" ".join,
)
def test_listings_fit(monkeypatch, capsys, run, asked):
    from tests.cli.test_names import _ask

    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.chdir(run)
    status, out, error = _ask(monkeypatch, capsys, *asked)
    assert (status, error) == (0, "")
    assert out.count("\n") > 1
    assert not too_long(out)


def test_the_races_take_a_line_each(monkeypatch, capsys):
    from controlplane.races import catalogue
    from tests.cli.test_names import _ask

    monkeypatch.setenv("COLUMNS", str(WIDTH))
    _, out, _ = _ask(monkeypatch, capsys, "race", "list")
    assert out.count("\n") < len(catalogue.numbers()) + 20
    _, out, _ = _ask(monkeypatch, capsys, "race", "list", "--component", "kubelet", "Static")
    assert "\nkubelet: " in out
    assert "scheduler: " not in out
    status, _, error = _ask(monkeypatch, capsys, "race", "list", "--component", "kublet")
    assert (status, error) == (
        2,
        "controlplane: --component: no component 'kublet'; did you mean kubelet?\n",
    )


def test_a_table_without_room_writes_its_wide_columns_below(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    row = (
        "one",
        "a text that is much too long for its column",
        "7",
        "and another text of that sort",
    )
    output.table("title", ["NAME", "WHAT", "COUNT", "WHY"], [row], ["COUNT"])
    assert capsys.readouterr().out.splitlines() == [
        "title", "",
        " NAME   COUNT",
        " ────────────",
        " one        7",
        "    WHAT: a text that is much too long",
        "    for its column",
        "    WHY: and another text of that sort", "",
    ]  # fmt: skip


def test_columns_that_fit_in_two_lines_stay_side_by_side():
    assert columns.stacked([["NAME", "web"], ["WHAT", "a text of some length"]], 30) == []
    assert columns.stacked([["NAME", "web"], ["WHAT", "x " * 60]], 30) == [1]
    assert columns.stacked([["WHAT", "x " * 60]], 30) == []
