"""JSON patch (RFC 6902) with the semantics and limits of the API server."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["JsonPatchError", "MAX_OPERATIONS", "json_patch"]

MAX_OPERATIONS = 10_000


class JsonPatchError(ValueError):
    """The patch does not apply to the document."""


_MISSING = object()


def _parts(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise JsonPatchError(f"unable to find {pointer}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _index(items: list[Any], part: str, *, adding: bool) -> int:
    if part == "-" and adding:
        return len(items)
    try:
        index = int(part)
    except ValueError:
        raise JsonPatchError(f"bad index {part}") from None
    size = len(items) + (1 if adding else 0)
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise JsonPatchError(f"index {part} out of range")
    return index


def _read(document: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(document, dict):
            if part not in document:
                return _MISSING
            document = document[part]
        elif isinstance(document, list):
            try:
                document = document[_index(document, part, adding=False)]
            except JsonPatchError:
                return _MISSING
        else:
            return _MISSING
    return document


def _change(document: Any, parts: list[str], action: str, value: Any) -> Any:
    """The document with one place added, replaced or removed; the rest is shared."""
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if isinstance(document, dict):
        out = dict(document)
        if rest:
            if part not in out:
                raise JsonPatchError(f"missing path {part}")
            out[part] = _change(out[part], rest, action, value)
        elif action == "add":
            out[part] = value
        elif action == "remove":
            if part not in out:
                raise JsonPatchError(f"missing value {part}")
            del out[part]
        else:
            out[part] = value
        return out
    if isinstance(document, list):
        items = list(document)
        index = _index(items, part, adding=not rest and action == "add")
        if rest:
            items[index] = _change(items[index], rest, action, value)
        elif action == "add":
            items.insert(index, value)
        elif action == "remove":
            del items[index]
        else:
            items[index] = value
        return items
    raise JsonPatchError(f"no container at {part}")


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    return bool(a == b)


def json_patch(document: Any, operations: list[Any]) -> Any:
    """The document after all operations; JsonPatchError at the first that fails."""
    for operation in operations:
        if not isinstance(operation, dict):
            raise JsonPatchError("not an operation")
        action = operation.get("op")
        path = operation.get("path")
        if not isinstance(path, str):
            raise JsonPatchError("no path")
        parts = _parts(path)
        if action in ("add", "replace", "test"):
            value = operation.get("value")
            if action == "test":
                found = _read(document, parts)
                if found is _MISSING:
                    found = None
                if not _equal(found, value):
                    raise JsonPatchError(f"test {path} failed: {json.dumps(value)}")
            else:
                document = _change(document, parts, action, value)
        elif action == "remove":
            document = _change(document, parts, "remove", None)
        elif action in ("move", "copy"):
            source = operation.get("from")
            if not isinstance(source, str):
                raise JsonPatchError("no from")
            origin = _parts(source)
            value = _read(document, origin)
            if value is _MISSING:
                if action == "move" or not isinstance(_read(document, origin[:-1]), dict):
                    raise JsonPatchError(f"missing {source}")
                value = None
            if action == "move":
                document = _change(document, origin, "remove", None)
            document = _change(document, parts, "add", value)
        else:
            raise JsonPatchError(f"Unexpected kind: {action}")
    return document
