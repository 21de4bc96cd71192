"""Descriptions of types and fields, as `kubectl explain` prints them.

The text is package data, read when the first document that carries it is requested. Types and fields
without a text are described by rules from the name itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

__all__ = ["EDITION", "field_text", "type_text"]

EDITION: Final = 1
"""Counted up with every change of the texts: documents with other texts are other documents."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z]|$|s$)s?|[A-Z]?[a-z]+|\d+|[A-Z]+")
_TYPE_ENDS: Final = (
    ("List", "A list of {} objects."),
    ("Spec", "What is wanted of a {}."),
    ("Status", "What is known of a {} at present."),
    ("Condition", "One aspect of the state of a {}."),
    ("Reference", "Names a {}."),
    ("Selector", "Chooses by {}."),
)
_FIELD_ENDS: Final = (
    ("Ref", "Names the {}."),
    ("Refs", "Name the {}."),
    ("Seconds", "The {}, in seconds."),
    ("Timestamp", "When the {} was."),
    ("Time", "The time of the {}."),
    ("Percent", "The {}, in percent."),
    ("Bytes", "The {}, in bytes."),
    ("Count", "How many times: {}."),
    ("Name", "The name of the {}."),
    ("Names", "The names of the {}."),
    ("Namespace", "The namespace of the {}."),
    ("Selector", "Chooses the {} by their labels."),
    ("Policy", "The policy of {}."),
)


@cache
def _texts() -> Mapping[str, str]:
    found = resources.files("controlplane.apiserver.schema") / "data" / "descriptions.txt"
    texts = {}
    for line in found.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, text = line.partition(": ")
            texts[name] = text
    return texts


def _words(name: str) -> str:
    """`maxIOPSPerNode` as words: `max IOPS per node`."""
    return " ".join(
        word if word.isupper() and len(word) > 1 else word.lower() for word in _WORD.findall(name)
    )


def _by_end(name: str, ends: tuple[tuple[str, str], ...], *, plain: bool = False) -> str:
    for end, text in ends:
        if name.endswith(end) and len(name) > len(end):
            stem = name.removesuffix(end)
            return text.format(stem if plain else _words(stem))
    return ""


def type_text(type_name: str) -> str:
    """Return the description of a type."""
    short = type_name.rpartition(".")[2]
    found = _texts().get(short) or _by_end(short, _TYPE_ENDS, plain=True)
    if found:
        return found
    return f"{_words(short).capitalize()}."


def field_text(type_name: str, field: str, declared: object) -> str:
    """Return the description of a field of a type; `declared` is the field's type."""
    short, texts = type_name.rpartition(".")[2], _texts()
    found = texts.get(f"{short}.{field}")
    if found is None and field[:1].islower():
        found = texts.get(field)
    if found is None:
        found = _by_end(field, _FIELD_ENDS)
    if found:
        return found
    return f"Whether: {_words(field)}." if declared == "boolean" else (f"The {_words(field)}.")
