"""Every expression that Python's own engine matches is shown not to backtrack badly.

Python's engine tries one way after the other, so a short hostile text can occupy it for hours.
Patterns that others write go to RE2 (`controlplane.apiserver.schema.go_regexp`); ours are listed here.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.apiserver.schema import go_json
from tests.backtracking import Automaton, Witness, witness

ROOT = Path(__file__).parents[1]
METHODS = frozenset(("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"))


def _written(path: str, function: str, at: int) -> str:
    """The text that a function is called with for the n-th time in a file."""
    calls = [
        node
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function
    ]
    return str(ast.literal_eval(calls[at].args[0]))


ELSEWHERE: dict[tuple[str, str], list[str]] = {
    ("controlplane.apiserver.kinds.custom.cel.library", "pattern"): [
        _written("controlplane/apiserver/kinds/custom/cel/library.py", "_matching", at)
        for at in range(3)
    ],
    ("controlplane.apiserver.schema.codec", "form"): [
        r"\d{4}",
        "-",
        r"\d\d",
        "T",
        ":",
        r"\.\d{6}",
        r"(\.\d+)?",
        r"(Z|[+-]\d\d:\d\d)",
    ],
    ("controlplane.apiserver.schema.go_json", "f'(?:{_form})\\\\Z'"): [
        rf"(?:{form})\Z"
        for form in ("[yYnN]", go_json._INT_FORM.pattern, go_json._FLOAT_FORM.pattern)
    ],
    ("controlplane.perf.devices", "found"): [],  # that of a workload's file
    ("controlplane.perf.workloads", "name_filter"): [],  # that of who types the command
}
"""Expressions that a function is given, by module and name: what it is called with."""
SHOWN_BY_TRYING: dict[str, str] = {
    "controlplane.api.fields _TERM": "begins after a comma only, and takes all up to the next one",
    "controlplane.api.yaml_text _EXPONENT": "begins where the text does",
    "controlplane.api.redaction _TOKEN": "begins where a word begins, and takes it whole",
    "controlplane.apiserver.http.foreign_tokens _BLOCK": "ends at the next beginning",
    "controlplane.apiserver.kinds.certificates.certificate_data _BLOCK": "ends at the next beginning",
    "controlplane.apiserver.kinds.custom.cel.syntax _SPACE": "gives up nothing that it took",
    "controlplane.apiserver.kinds.custom.cel.syntax _TOKEN": "gives up no blanks that it took",
    "controlplane.apiserver.kinds.custom.formats _SPAN": "begins where a number begins only",
    "controlplane.apiserver.kinds.names _LEADING_ZEROS": "begins where a number does; zeros given up are seen once",
    "controlplane.apiserver.schema.descriptions _WORD": "what looks ahead in vain is taken by the last way",
    "controlplane.operators.masks _RANDOM": "looks ahead once, at its beginning",
    "controlplane.operators.oracles _PANIC": "begins where a line does, and stays within it",
    "controlplane.page.report _IMPORT": "begins where a line does, and stays within it",
    "controlplane.page.report _LEFT": "begins where a line does, and stays within it",
    "controlplane.perf.templates _ACTION": "ends at the next beginning",
    "controlplane.shell.awk.values _DIRECTIVE": "every part is bounded",
    "controlplane.shell.text_programs _DIRECTIVE": "every part is bounded",
    "controlplane.perf.workloads _DURATION": "begins where a number begins, and takes it whole",
}
"""What the structure does not show: why it is linear nevertheless. Tried on the text that makes it doubtful."""
USED = {"controlplane.apiserver.schema.go_json f'(?:{_form})\\\\Z'": ("match",)}
"""How others use them, where it does not show: PyYAML's resolvers."""
LARGE = 1 << 17
SECONDS = 10.0
"""Of this process. Linear takes thousandths; what is quadratic at this size takes minutes."""


class Expression(NamedTuple):
    """One that is compiled somewhere, and how it is used."""

    place: str
    pattern: str | bytes
    flags: int
    methods: tuple[str, ...]


USING = re.compile(rf"\bre\.compile\b|\.({'|'.join(METHODS)})\b")


def _modules() -> list[tuple[str, ast.Module]]:
    """The modules that compile or use an expression: to read one costs milliseconds, and most have none."""
    paths = [*(ROOT / "controlplane").rglob("*.py"), *(ROOT / "actors").rglob("*.py")]
    texts = {path: path.read_text() for path in sorted(paths)}
    return [
        (".".join(path.relative_to(ROOT).with_suffix("").parts), ast.parse(text))
        for path, text in texts.items()
        if USING.search(text)
    ]


def _calls(tree: ast.Module) -> list[tuple[ast.Call, str]]:
    """Calls of the functions of `re`, and their names."""
    return [
        (node, node.func.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in METHODS | {"compile"}
    ]


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """By name, the methods that are taken of what it names."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            if isinstance(node.value, ast.Name):
                found[node.value.id].add(node.attr)
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What is imported by name, and from where."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.module, alias.name


@cache
def expressions() -> list[Expression]:
    """All of them. What cannot be evaluated where it stands must be told above."""
    modules = _modules()
    uses: dict[str, set[str]] = defaultdict(set)
    exports: dict[str, set[str]] = defaultdict(set)
    for _, tree in modules:
        for name, methods in _uses(tree).items():
            uses[name] |= methods
        for module, name in _imported(tree):
            exports[module].add(name)
    found = []
    for module, tree in modules:
        calls = _calls(tree)
        if not calls:
            continue
        space = vars(importlib.import_module(module))
        here = _uses(tree)
        names = {
            id(node.value): target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        direct = {
            id(node.value): node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in METHODS
        }
        for call, function in calls:
            written = ast.unparse(call.args[0])
            name = names.get(id(call), "")
            if function != "compile":
                methods = {function}
            elif id(call) in direct:
                methods = {direct[id(call)]}
            else:
                methods = here[name] | (uses[name] if name in exports[module] else set())
            flags = [call.args[-1]] if len(call.args) > 1 and function != "sub" else []
            flags += [each.value for each in call.keywords if each.arg == "flags"]
            value = sum(
                eval(ast.unparse(flag), dict(space))
                for flag in flags
                if ast.unparse(flag).startswith("re.")
            )
            place = f"{module} {name or written[:40]}"
            if (module, written) in ELSEWHERE:
                patterns = ELSEWHERE[module, written]
            else:
                patterns = [eval(written, dict(space))]
            found += [
                Expression(
                    place,
                    pattern,
                    int(value),
                    USED.get(place) or tuple(sorted(methods)) or ("search",),
                )
                for pattern in patterns
            ]
    return found


def doubts(expression: Expression) -> list[tuple[str, Witness | None]]:
    """The methods with which an expression is not clearly linear, and a text each, if there is one."""
    found = []
    for method in expression.methods:
        automaton = Automaton(expression.pattern, expression.flags, method)
        text = witness(automaton)
        if text or automaton.unclear:
            found.append((method, text))
    return found


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End what computes longer than that: Python's engine looks at signals now and then."""

    def ended(*_: object) -> None:
        raise TimeoutError("it searches for ever")

    before = signal.signal(signal.SIGVTALRM, ended)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def tried(expression: Expression, method: str, text: str) -> None:
    """Let Python's engine match a text."""
    compiled = re.compile(expression.pattern, expression.flags)
    subject = text.encode("utf-8", "replace") if isinstance(expression.pattern, bytes) else text
    if method in ("sub", "subn"):
        getattr(compiled, method)(b"" if isinstance(subject, bytes) else "", subject)
    elif method == "finditer":
        deque(compiled.finditer(subject), maxlen=0)
    else:
        getattr(compiled, method)(subject)


def test_all_expressions_are_found():
    written = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("controlplane", "actors")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.match(r"\s*(from re import|import re as|import regex|from regex )", line)
    ]
    assert not written  # they would not be seen
    assert len(expressions()) > 100


def test_every_expression_is_linear_by_its_structure_or_when_tried():
    doubtful: dict[str, list[tuple[Expression, str, Witness | None]]] = defaultdict(list)
    for expression in expressions():
        for method, text in doubts(expression):
            doubtful[expression.place].append((expression, method, text))
    assert sorted(doubtful) == sorted(SHOWN_BY_TRYING)
    with limited(SECONDS):
        for found in doubtful.values():
            for expression, method, text in found:
                shown = text or Witness("", "-----BEGIN A-----\nAAA \n\n")
                for end in ("", "\x00", "!\n", "A"):
                    tried(expression, method, shown.text(LARGE, end))


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        ("(a*)*b", "fullmatch"),
        ("(a+)+", "fullmatch"),
        ("(a|b|ab)*", "fullmatch"),
        (r"(\s*x?)*", "fullmatch"),
        (r"(a[ab]*)*", "fullmatch"),
        ("a*a*", "fullmatch"),
        ("[0-9]*x?[0-9]*", "fullmatch"),
        ("a+b", "search"),
        ("(a(a*c)?)*", "match"),
        (r"(?:x.*)*y", "match"),
        (r"(?s)<!--.*?-->", "findall"),
        ("(?i:A|a)*A*B", "match"),
    ],
)
def test_expressions_that_search_for_long_are_found_with_a_text_that_shows_it(pattern, method):
    text = witness(Automaton(pattern, 0, method))
    assert text is not None
    with pytest.raises(TimeoutError), limited(0.1):
        for end in ("\x00", "\n"):
            tried(Expression("", pattern, 0, (method,)), method, text.text(LARGE >> 1, end))


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        ("a*b", "match"),
        ("(a|b)*c", "fullmatch"),
        (r"[a-z]([-a-z]*[a-z])?(\.[a-z]([-a-z]*[a-z])?)*", "fullmatch"),
        ("[0-9]+", "findall"),
        ("[0-9]*+x?[0-9]*+", "fullmatch"),
        ("a*+a*b", "match"),
        (r'"(\\.|[^"\\])*"', "match"),
        (".*-[0-9]+", "fullmatch"),
    ],
)
def test_expressions_that_go_on_at_once_are_not_doubted(pattern, method):
    assert witness(Automaton(pattern, 0, method)) is None
