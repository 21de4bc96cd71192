"""The redaction of a run's output: the data of Secrets, and tokens.

Recordings keep what a replay needs. Nothing here decides anything.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from controlplane.api.tree import Tree

__all__ = ["REDACTED", "cleaner", "redacted"]

REDACTED: Final = "REDACTED"
"""Stands for what is not shown. It is base64 as well, so that a redacted Secret is still one."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_TOKEN: Final = re.compile(
    r"(?<![\w-])((?:(?!\beyJ)[\w-])*+)eyJ[\w-]++\.[\w-]++\.[\w-]*+"  # each word is looked at once
    r"|\b([Bb]earer|[Bb]asic) [\w.~+/=-]+"
)
_SHORTEST: Final = 8
"""Shorter values are not looked for in texts: too much else is the same."""
_LONGEST: Final = 4096


def redacted(tree: Tree) -> Tree:
    """An object as people may see it; the same one if there is nothing to hide."""
    kind = tree.get("kind")
    if kind == "Secret" and tree.get("apiVersion") == "v1":
        tree = {
            **tree,
            **{key: _hidden(tree[key]) for key in ("data", "stringData") if key in tree},
        }
    elif kind in ("TokenRequest", "TokenReview"):
        for part in ("spec", "status"):
            inner = tree.get(part)
            if isinstance(inner, dict) and inner.get("token"):
                tree = {**tree, part: {**inner, "token": REDACTED}}
    elif isinstance(kind, str) and kind.endswith("List") and isinstance(tree.get("items"), list):
        return {**tree, "items": [_item(each, kind, tree) for each in tree["items"]]}
    return _without_applied(tree)


def cleaner(secrets: Iterable[Tree] = ()) -> Callable[[str], str]:
    """Return a function that redacts a text: it removes tokens and the values of these Secrets."""
    values = sorted(set(_values(secrets)), key=lambda each: (-len(each), each))

    def clean(text: str) -> str:
        if "eyJ" in text or "earer " in text or "asic " in text:
            text = _TOKEN.sub(_said, text)
        for value in values:
            text = text.replace(value, REDACTED)
        return text

    return clean


def _said(found: re.Match[str]) -> str:
    return f"{found[2]} {REDACTED}" if found[2] else f"{found[1]}{REDACTED}"


def _hidden(values: Any) -> Any:
    if not isinstance(values, dict):
        return REDACTED if values else values
    return dict.fromkeys(values, REDACTED)


def _item(item: Any, kind: str, parent: Tree) -> Any:
    """One of a list, which need not say its own kind."""
    if not isinstance(item, dict):
        return item
    if kind == "List" or "kind" in item:
        return redacted(item)
    named = redacted({**item, "kind": kind[:-4], "apiVersion": parent.get("apiVersion", "")})
    return {key: value for key, value in named.items() if key in item}


def _without_applied(tree: Tree) -> Tree:
    """Without the Secret that kubectl keeps a copy of in an annotation."""
    meta = tree.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    text = notes.get(LAST_APPLIED) if isinstance(notes, dict) else None
    if not isinstance(text, str) or (tree.get("kind") != "Secret" and '"Secret"' not in text):
        return tree
    assert isinstance(meta, dict)
    assert isinstance(notes, dict)
    try:
        applied = json.loads(text)
        shown = json.dumps(redacted(applied), separators=(",", ":"), sort_keys=True) + "\n"
        if not isinstance(applied, dict) or applied.get("kind") != "Secret":
            shown = text if tree.get("kind") != "Secret" else REDACTED
    except (ValueError, AttributeError, RecursionError):
        shown = REDACTED
    return {**tree, "metadata": {**meta, "annotations": {**notes, LAST_APPLIED: shown}}}


def _values(secrets: Iterable[Tree]) -> Iterator[str]:
    for tree in secrets:
        for value in (tree.get("data") or {}).values():
            if not isinstance(value, str):
                continue
            found = [value]
            with suppress(ValueError):  # not a text
                found.append(base64.b64decode(value).decode())
            for each in found:
                if _SHORTEST <= len(each) <= _LONGEST and each != REDACTED:
                    yield each
