"""Recorded conversations as the material that random ones are made of.

A class of conversations is a golden file: `crud.services` for `crud.services.jsonl.xz`. The namespace of a
conversation is written `<ns>`, so that it can be asked in any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from attrs import field, frozen

from tests.golden.runner import DATA, golden_files, read_cases

Json = Any

NAMESPACE: Final = "<ns>"
FOLDERS: Final = ("fresh", "further", "api")
_LEFT_OUT: Final = ("controllers", "kubectl_requests", "list_watch_compact", "custom_values")
_UNSUPPORTED: Final = ("background", "collect", "storageCompaction")
"""Steps that need a server of the conversation's own, or two connections."""


@frozen
class Conversation:
    """Requests that belong together. Steps have the form of golden cases.

    `of` is the class; `setup` is asked first, without comparison; `managed`: managedFields are compared.
    """

    of: str
    setup: tuple[Json, ...]
    steps: tuple[Json, ...]
    managed: bool = False
    seed: str = ""

    def tree(self) -> Json:
        """The form in which a report shows it."""
        return {
            "class": self.of,
            "seed": self.seed,
            "setup": list(self.setup),
            "requests": list(self.steps),
            "managedFields": self.managed,
        }


@frozen
class Corpus:
    """All recorded conversations by class, and the values that stand under each key of their bodies."""

    by_class: dict[str, list[Conversation]] = field(factory=dict)
    values: dict[str, list[Json]] = field(factory=dict)
    objects: dict[tuple[str, str], list[tuple[str, Json]]] = field(factory=dict)
    """Path and body of the creations of a kind, by apiVersion and kind."""


def class_of(path: Path) -> str:
    """The class of a golden file: a second recording of a file belongs to the class of the first."""
    name = path.name.partition(".jsonl")[0]
    return name.removesuffix(".second").rstrip("2")


@cache
def corpus(folders: tuple[str, ...] = FOLDERS) -> Corpus:
    """Read the stored golden conversations."""
    found = Corpus()
    values: dict[str, dict[str, Json]] = {}
    for path in golden_files([DATA / folder for folder in folders]):
        name = class_of(path)
        if name in _LEFT_OUT:
            continue
        for case in read_cases(path):
            told = _conversation(name, case.input)
            if told is None:
                continue
            found.by_class.setdefault(name, []).append(told)
            for step in told.steps:
                _note(step, found, values)
    for key, each in values.items():
        found.values[key] = list(each.values())
    return found


def _conversation(name: str, case: Json) -> Conversation | None:
    if "namespace" not in case or "fixture" in case:
        return None
    text = json.dumps([case.get("setup", []), case["requests"]], ensure_ascii=False)
    setup, steps = json.loads(text.replace(case["namespace"], NAMESPACE))
    if any(unsupported(step) for step in steps):
        return None
    return Conversation(name, tuple(setup), tuple(steps), bool(case.get("managedFields")))


def unsupported(step: Json) -> bool:
    """Return whether a step cannot stand in a random conversation."""
    headers = {name.lower() for name in step.get("headers") or ()}
    return any(name in step for name in _UNSUPPORTED) or "authorization" in headers


def _note(step: Json, found: Corpus, values: dict[str, dict[str, Json]]) -> None:
    body = step.get("body")
    for key, value in members(body):
        seen = values.setdefault(key, {})
        if len(seen) < 200:
            seen.setdefault(json.dumps(value, sort_keys=True), value)
    if step.get("method") == "POST" and isinstance(body, dict):
        version, kind = body.get("apiVersion"), body.get("kind")
        if isinstance(version, str) and isinstance(kind, str) and not step.get("query"):
            found.objects.setdefault((version, kind), []).append((step["path"], body))


def members(value: Json) -> Iterator[tuple[str, Json]]:
    """Every key of a tree with its value, at all depths."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, item
            yield from members(item)
    elif isinstance(value, list):
        for item in value:
            yield from members(item)


def classes(chosen: Iterable[str] = ()) -> list[str]:
    """The names of all classes that the corpus has, or those chosen that it has."""
    known = sorted(corpus().by_class)
    wanted = list(chosen)
    return [name for name in known if not wanted or name in wanted]
