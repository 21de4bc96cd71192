"""The arrows between modules: no import circle anywhere, imports for type checking counted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def modules(package: str) -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> list[str]:
    """The modules that a module imports, wherever in it the import stands."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found[inner if inner in known else node.module] = None
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.name] = None
    return [name for name in found if name in known]


def circles(graph: dict[str, list[str]]) -> list[list[str]]:
    """Modules that reach each other: the strongly connected components of more than one (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        on_stack.add(name)
        for other in graph[name]:
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in on_stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            component = []
            while not component or component[-1] != name:
                component.append(stack.pop())
                on_stack.discard(component[-1])
            if len(component) > 1:
                found.append(sorted(component))

    for name in graph:
        if name not in number:
            visit(name)
    return found


@pytest.mark.parametrize("package", ["actors", "controlplane"])
def test_no_modules_import_each_other(package: str) -> None:
    known = modules(package)
    graph = {
        name: [other for other in imports(path, known) if other != name]
        for name, path in known.items()
    }
    assert circles(graph) == []


def test_a_circle_would_be_found() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}
    assert circles(graph) == [["a", "b", "c"]]
