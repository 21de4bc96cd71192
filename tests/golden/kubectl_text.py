"""Volatile parts of what kubectl asks and prints, under the names that the recordings use.

The same function goes over the recording and over our answer: where a recording keeps an age
literally because it was stable (an object of 2020), ours is named in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["other_cases_rows", "named", "named_tree"]

Json = Any

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(form), name)
    for form, name in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
        (r"eyJ[\w-]+\.[\w-]+\.[\w-]*", "<jwt>"),
        (r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\]", "<klog>"),
        (r"20(?!20|40)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4}|)", "<time>"),
        (r"\w{3}, \d\d \w{3} 20(?!20|40)\d\d \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r"(127\.0\.0\.1|\[::1\]):\d+", "<server>"),
        (r"/tmp/(LIVE|MERGED)-\d+", r"/tmp/\1-<n>"),
        (r"/tmp/kubectl-edit-\w+\.\w+", "<tmpfile>"),
        (r"(?<![\w.:/-])1\d{5}(?![\w.])", "<rv>"),
    )
)
_AGE = re.compile(r"(?<![\w.=/-])(?:<invalid>|(?:\d+[ydhms]){1,2})(?![\w./-])")
_SPACES_AFTER_AGE = re.compile(r"<age> +")
# kubectl drain walks a map of its reasons: their order differs from run to run.
_REASONS = re.compile(r"^(warning: )(.+; .+)$", re.IGNORECASE | re.MULTILINE)


def named(text: str, suffixes: Iterable[str] = (), places: Mapping[str, str] | None = None) -> str:
    """The text with its volatile parts replaced by their names."""
    for place, name in (places or {}).items():
        text = text.replace(place, name)
    for suffix in suffixes:
        text = text.replace(suffix, "<rand>")
    for form, name in _RULES:
        text = form.sub(name, text)
    text = _REASONS.sub(lambda found: found[1] + "; ".join(sorted(found[2].split("; "))), text)
    return _SPACES_AFTER_AGE.sub("<age> ", _AGE.sub("<age>", text))


def named_tree(value: Json, suffixes: Iterable[str] = ()) -> Json:
    """The same for every text in a request; continue tokens are opaque."""
    if isinstance(value, str):
        return named(value, suffixes)
    if isinstance(value, list):
        return [named_tree(item, suffixes) for item in value]
    if isinstance(value, dict):
        return {
            named(key, suffixes): _opaque(key, item) or named_tree(item, suffixes)
            for key, item in value.items()
        }
    return value


def _opaque(key: str, value: Json) -> str:
    if key == "continue":
        return "<continue>"
    if key == "timeoutSeconds" and isinstance(value, str) and value.isdecimal():
        return "<random 300-599>" if 300 <= int(value) <= 599 else ""
    return ""


def other_cases_rows(text: str, namespace: str) -> str:
    """A table of all namespaces without the rows of other cases, which ran on the same server."""
    family = re.compile(re.escape(namespace.rstrip("0123456789")) + r"\d+")
    kept = []
    for line in text.splitlines(keepends=True):
        first = line.split(maxsplit=1)
        if first and first[0] != namespace and family.fullmatch(first[0]):
            continue
        kept.append(line)
    return "".join(kept)
