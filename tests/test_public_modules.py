"""Public modules: examples import no others, each exports the names in `__all__`, and importing them is cheap."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "public-modules.md"
PUBLIC = re.findall(r"^\| `([\w.]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
OURS = ("actors", "controlplane")
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imported(source: str) -> list[str]:
    """The modules of ours that a source imports, each as the most exact name that is a module."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in PUBLIC else node.module for name in inner]
    return [name for name in found if name.split(".")[0] in OURS]


def test_there_are_examples():
    assert len(EXAMPLES) >= 5
    assert {"actors", "controlplane.scenarios", "controlplane.cluster"} <= set(PUBLIC)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_imports_public_modules_only(path):
    assert [name for name in imported(path.read_text()) if name not in PUBLIC] == []


def test_an_internal_module_would_be_found():
    source = "from controlplane.scheduler.queue import flushes\nimport actors.kernel\nimport actors"
    found = [name for name in imported(source) if name not in PUBLIC]
    assert found == ["controlplane.scheduler.queue", "actors.kernel"]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_gives_every_name_that_it_announces(name):
    module = importlib.import_module(name)
    assert module.__doc__
    for public in getattr(module, "__all__", ()):
        assert getattr(module, public) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


@pytest.mark.parametrize(
    "name",
    ["controlplane.scheduler.framework", "controlplane.controllers", "controlplane.operators"],
)
def test_importing_a_package_of_re_exports_imports_nothing_of_what_it_gives(name):
    program = (
        f"import sys, {name}; print(*(m for m in sys.modules if m.startswith('controlplane.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    parents = {name.rsplit(".", 1)[0], name} - {"controlplane"}
    assert set(done.stdout.split()) == parents


@pytest.mark.parametrize("package", OURS)
def test_a_package_says_that_it_is_typed(package):
    assert (ROOT / package / "py.typed").read_text() == ""
