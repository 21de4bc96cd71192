"""Unknown names of any kind: one line, exit status 2 and the nearest names."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from controlplane.cli.main import READER_GONE, _run


def _ask(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["controlplane", *arguments])
    return _run(), *capsys.readouterr()


POD = "{apiVersion: v1, kind: Pdo, metadata: {name: web}}"


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["rnu"], "no command 'rnu'; did you mean run?"),
        (["race", "shwo"], "no command 'shwo'; did you mean show?"),
        (["time", "pasue"], "no command 'pasue'; did you mean pause?"),
        (["nodes", "ad"], "no command 'ad'; did you mean add?"),
        (["run", "--stratgy", "pct"], "no option '--stratgy'; did you mean --strategy"),
        (["race", "list", "--format", "jsn"], "no format 'jsn'; did you mean json?"),
        (["logs", "export", "--format", "perfeto"], "no format 'perfeto'; did you mean perfetto?"),
        (["explore", "churn", "--strategy", "pcd"], "no strategy 'pcd'; did you mean pct"),
        (["explore", "chrun"], "chrun: no such file; did you mean churn"),
        (["race", "power", "--strategy", "pcd"], "no strategy 'pcd'; did you mean pct"),
        (["race", "power", "141256"], "no gate of the scheduler '141256'; did you mean 141255"),
        (
            ["race", "power", "--component", "kublet"],
            "no component 'kublet'; did you mean kubelet?",
        ),
        (["race", "show", "138325"], "no race '138325'; did you mean 138324"),
        (["run", "--without-fix", "138325"], "no fix gate '138325'; did you mean 138324"),
        (
            ["run", "--fix", "138324=uid-thread"],
            "no variant 'uid-thread'; did you mean uid-threading?",
        ),
        (
            ["run", "--without", "schedulr"],
            "--without: no part 'schedulr'; did you mean scheduler?",
        ),
        (["run", "--controllers", "jbo"], "--controllers: no controller 'jbo'; did you mean job"),
        (
            ["run", "--admission", "Prioritty"],
            "no admission plugin 'Prioritty'; did you mean Prior",
        ),
        (["run", "--feature-gates", "GangSchedulin=true"], "did you mean GangScheduling"),
        (["completion", "bahs"], "no shell 'bahs'; did you mean bash?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    monkeypatch, capsys, tmp_path, arguments, near
):
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "run":
        (tmp_path / "empty.yaml").write_text("")
        arguments = [*arguments, "empty.yaml"]
    status, out, error = _ask(monkeypatch, capsys, *arguments)
    assert (status, out, error.count("\n")) == (2, "", 1), error
    assert near in error


def test_an_unknown_kind_in_a_manifest_is_answered_with_the_nearest(monkeypatch, capsys, tmp_path):
    (tmp_path / "pod.yaml").write_text(POD)
    status, _, error = _ask(monkeypatch, capsys, "run", str(tmp_path / "pod.yaml"))
    assert (status, error.count("\n")) == (2, 1)
    assert "'Pdo' is registered for version 'v1'; did you mean Pod" in error


@pytest.mark.parametrize("arguments", [["--help"], ["race", "gates", "--format", "json"]])
def test_a_reader_that_has_gone_is_no_broken_invariant(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane", *arguments],
            stdout=closed, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (READER_GONE, "") == (141, "")


def test_every_choice_on_the_command_line_is_answered_with_the_nearest():
    """Choices and groups of click itself list all names, or the similar ones in other words."""
    import click

    from controlplane.cli.main import COMMANDS, cli
    from controlplane.cli.names import Choice, Group

    def look(command):
        for param in command.params:
            assert isinstance(param.type, Choice) or not isinstance(param.type, click.Choice), param
        if isinstance(command, click.Group):
            assert isinstance(command, Group), command.name
            for name in command.list_commands(context):
                look(command.get_command(context, name))

    context = click.Context(cli)
    assert len(COMMANDS) > 10
    look(cli)
