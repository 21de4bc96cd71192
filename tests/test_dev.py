"""The front door: what `dev.py` says before it has set anything up."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "dev.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def loaded():
    spec = importlib.util.spec_from_file_location("dev_under_test", ROOT / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_unknown_verb_is_one_line_and_status_2():
    done = dev("nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dev.py: no verb 'nope'; try python3 dev.py --help\n"


def test_help_names_every_verb():
    done = dev("--help")
    assert done.returncode == 0
    for verb in (
        "run",
        "test",
        "check",
        "bench",
        "controlplane",
        "docs",
        "golden",
        "kubectls",
        "set-up",
    ):
        assert f"python3 dev.py {verb}" in done.stdout


@pytest.mark.parametrize(
    ("verb", "groups"),
    [("run", ()), ("controlplane", ()), ("test", ("dev",)), ("golden", ("dev",))],
)
def test_running_installs_nothing_that_only_tests_need(verb, groups, monkeypatch):
    module = loaded()
    asked = []
    monkeypatch.setattr(module, "set_up", lambda *wanted: asked.append(wanted))
    monkeypatch.setattr(module, "call", lambda *_command: 0)
    monkeypatch.setattr(sys, "argv", ["dev.py", verb])
    assert module.main() == 0
    assert asked == [groups]


@pytest.mark.parametrize("status", [0, 1])
def test_docs_builds_anew_with_warnings_as_errors_and_fails_with_the_build(
    status, tmp_path, monkeypatch
):
    module = loaded()
    old = tmp_path / "_build" / "html" / "old.html"
    old.parent.mkdir(parents=True)
    old.write_text("")
    asked, called = [], []
    monkeypatch.setattr(module, "DOCS", old.parent)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "set_up", lambda *wanted: asked.extend(wanted))
    monkeypatch.setattr(module, "call", lambda *command: called.append(command) or status)
    monkeypatch.setattr(sys, "argv", ["dev.py", "docs"])
    assert module.main() == status
    assert "docs" in asked
    assert not old.exists()
    site, sources, manual = called
    assert {"--fail-on-warning", "--nitpicky"} <= set(site)
    assert "docs._ext.manual" in sources
    assert {"man", "--fail-on-warning", sources[-1]} <= set(manual)


def test_every_group_has_a_lock():
    module = loaded()
    assert all(module.lock(group).exists() for group in (*module.GROUPS, "run"))


def test_ctrl_c_is_one_line_and_status_130(monkeypatch, capsys):
    module = loaded()

    def interrupted(*_command):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "set_up", lambda *_wanted: 0)
    monkeypatch.setattr(module, "call", interrupted)
    monkeypatch.setattr(sys, "argv", ["dev.py", "test"])
    assert module.guarded() == 130
    assert capsys.readouterr() == ("", "dev.py: stopped\n")


def test_kubectls_says_where_they_are(monkeypatch, capsys, tmp_path):
    module = loaded()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.shutil, "which", lambda _name: "npm")
    places = [tmp_path / ".tools" / f"kubectl-1.{minor}" / "kubectl" for minor in module.KUBECTLS]
    for place in places:
        place.parent.mkdir(parents=True)
        place.touch()
    assert module.kubectls() == 0
    assert capsys.readouterr().out.splitlines() == [str(place) for place in places]
