"""Commands that pages show exist, with the options that they are given; those of runnable blocks work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from docs._ext import command_line
from tests.command import controlplane
from tests.docs.pages import PAGES, ROOT, Command, commands, likeness, name

COMMANDS = {found: command for found, command, _ in command_line.commands()}
WITH_COMMANDS = [page for page in PAGES if "controlplane " in page.read_text(encoding="utf-8")]
RUNNABLE = [page for page in PAGES if any(each.runnable for each in commands(page.read_text()))]
INLINE = re.compile(r"`(controlplane [^`]+)`")
SEARCHES = (
    "controlplane explore", "controlplane race explore", "controlplane race run", "controlplane confirm",
)  # fmt: skip


def known_options(full_name: str, words: tuple[str, ...]) -> set[str]:
    """The options of a command; where it runs a scenario, those of the scenario that the words name, too."""
    command = COMMANDS[full_name]
    ctx = click.Context(command, info_name=full_name)
    if full_name in SEARCHES:
        target = words[full_name.count(" ") + 1]
        ctx.meta["scenario"] = command._find(str(ROOT / target) if "/" in target else target)
    return {
        name
        for param in command.get_params(ctx)
        for name in (*param.opts, *param.secondary_opts)
        if name.startswith("-")
    }


def problem(words: tuple[str, ...]) -> str | None:
    """Return the errors in the words of a `controlplane` command."""
    full_name = words[0]
    for word in words[1:]:
        if f"{full_name} {word}" not in COMMANDS:
            break
        full_name = f"{full_name} {word}"
    command = COMMANDS[full_name]
    rest = words[full_name.count(" ") + 1 :]
    if isinstance(command, click.Group):
        named = [word for word in rest if re.fullmatch(r"[a-z-]+", word)]
        return f"{full_name} has no command {named[0]!r}" if named else None
    asked = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    unknown = asked - known_options(full_name, words) if asked else set()
    return f"{full_name} has no option {sorted(unknown)}" if unknown else None


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_commands_of_console_blocks_exist_with_their_options(page):
    shown = [each.words for each in commands(page.read_text(encoding="utf-8"))]
    wrong = [problem(words) for words in shown if words[0] == "controlplane"]
    assert [each for each in wrong if each] == []


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_commands_within_sentences_exist(page):
    for text in INLINE.findall(page.read_text(encoding="utf-8")):
        words = tuple(text.split())
        full_name = " ".join(words[:2])
        if re.fullmatch(r"[a-z-]+(\|[a-z-]+)*", words[1]):
            for each in words[1].split("|"):
                assert f"controlplane {each}" in COMMANDS, text
        if isinstance(COMMANDS.get(full_name), click.Group) and len(words) > 2:
            for each in words[2].split("|"):
                assert not each.islower() or f"{full_name} {each}" in COMMANDS, text


def test_what_does_not_exist_would_be_found():
    assert problem(("controlplane", "explode")) == "controlplane has no command 'explode'"
    assert "no option ['--nope']" in problem(("controlplane", "run", "a.yaml", "--nope", "3"))
    assert "--small" in known_options(
        "controlplane race run", ("controlplane", "race", "run", "138324")
    )
    block = "<!-- runnable -->\n```console\n$ a --b  # exit status 1\nout\n$ c \\\n   d\n```\n"
    assert commands(block) == [
        Command(("a", "--b"), 1, True, ("out",)),
        Command(("c", "d"), 0, True),
    ]


def test_lines_of_output_are_alike_if_only_numbers_and_names_differ():
    one = "step 72, 0 s: read Pod/default/web-0, version 22, uid e99d9bfa;  of 1,234"
    assert likeness(one) == "step N N s: read Pod/default/web-N version N uid UID; of N"
    assert likeness("nothing broke") != likeness("nothing breaks")


def test_the_pages_have_runnable_blocks():
    assert len(RUNNABLE) >= 12


def python(words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "110", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


RUN = {
    "controlplane": lambda words, folder: controlplane(*words, cwd=folder, COLUMNS="110"),
    "python": python,
}
"""How the programs of runnable blocks are run: the command line in this process."""


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_runnable_blocks_run_and_print_what_the_page_shows(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for words, status, runnable, shown in commands(page.read_text(encoding="utf-8")):
        if not runnable:
            continue
        done = RUN[words[0]](words[1:], tmp_path)
        assert done.returncode == status, f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr}"
        printed = {likeness(line) for line in (done.stdout + done.stderr).splitlines()}
        whole = [line for line in shown if "..." not in line and "───" not in line]
        assert [line for line in whole if likeness(line) not in printed] == [], " ".join(words)
