"""The words of scenarios in YAML, from the tables by which they are read."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from docs._ext.markdown import escape, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.scenarios.authoring.words import Word


def page() -> str:
    """Return the tables of keys, words, operations, fault keys, invariants and rule keys, each under its heading."""
    from controlplane.scenarios.authoring import declared, faults, words

    parts = [
        ("Keys of a document", _keys(declared.KEYS)),
        ("What users do", _words(words.WORDS)),
        ("Words about words", _words(words.FLOW)),
        ("Operations", _operations(faults.OPERATIONS)),
        ("Keys of a fault", _keys(declared.FAULT_KEYS)),
        ("Invariants by name", _names((declared.QUEUE, *declared.INVARIANTS))),
        ("Keys of a rule", _keys(declared.RULE_KEYS)),
    ]
    return "\n\n".join(f"## {head}\n\n{text}" for head, text in parts) + "\n"


def _keys(keys: Mapping[str, str]) -> str:
    return table(("key", "value"), ((f"`{key}`", escape(says)) for key, says in keys.items()))


def _words(words: Mapping[str, Word]) -> str:
    rows = ((f"`{name}`", f"`{each.example}`", escape(each.says)) for name, each in words.items())
    return table(("word", "example", "meaning"), rows)


def _operations(operations: Mapping[str, Callable[..., object]]) -> str:
    rows = []
    for name, each in operations.items():
        arguments = [
            f"{param.name.upper()}" for param in inspect.signature(each).parameters.values()
        ]
        given = arguments[0] if len(arguments) == 1 else f"[{', '.join(arguments)}]"
        rows.append(
            (
                f"`{name}`",
                f"`{name}: {given}`",
                escape(" ".join((inspect.getdoc(each) or "").split())),
            )
        )
    return table(("operation", "form", "meaning"), rows)


def _names(names: tuple[str, ...]) -> str:
    return "\n".join(f"- {escape(name)}" for name in names)
