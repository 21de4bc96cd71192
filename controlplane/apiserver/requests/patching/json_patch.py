"""JSON patch (RFC 6902) with the semantics and limits of the API server.

They are those of evanphx/json-patch 4: a key that is not there reads as null, a pointer's text
before the first slash is ignored, a root can only be replaced by a map or a list, and numbers are
equal if they are written alike.
"""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.requests.patching.documents import DocumentError, Node, node_of
from controlplane.apiserver.schema.json_values import WrittenFloat, WrittenText, json_text
from controlplane.apiserver.schema.work import spend

__all__ = ["JsonPatchError", "JsonPatchTestError", "MAX_OPERATIONS", "json_patch"]

MAX_OPERATIONS = 10_000


class JsonPatchError(ValueError):
    """The patch does not apply to the document."""


class JsonPatchTestError(JsonPatchError):
    """A test in the patch failed."""


def json_patch(document: Any, operations: list[Any]) -> Any:
    """The document after all operations; JsonPatchError at the first that fails."""
    root = Node(document)
    root.is_map()
    for operation in operations:
        spend(4)
        if not isinstance(operation, dict):
            raise JsonPatchError("not an operation")
        try:
            root = _applied(root, operation)
        except DocumentError as error:
            raise JsonPatchError(str(error)) from None
    return root.plain()


def _text(operation: dict[str, Any], name: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise JsonPatchError(f"no {name}")
    return value


def _applied(root: Node, operation: dict[str, Any]) -> Node:
    action = operation.get("op")
    if action in ("move", "copy"):
        container, key = _found(root, _text(operation, "from"))
        value = container.child(key)
        if action == "move":
            container.remove(key)
        container, key = _found(root, _text(operation, "path"))
        if action == "copy" and value is not None:  # taken apart on the way to where it goes, too
            value = node_of(value.plain())
        container.add(key, value)
        return root
    if action not in ("add", "remove", "replace", "test"):
        raise JsonPatchError(f"Unexpected kind: {action}")
    path = _text(operation, "path")
    given = node_of(operation.get("value"))
    if not path and action == "replace":
        if given is None or not (given.is_map() or given.is_list()):
            raise JsonPatchError("the root must be a map or a list")
        return given
    if not path and action == "test":
        if not _equal(root, given):
            raise JsonPatchTestError("test of the root failed")
        return root
    container, key = _found(root, path)
    if action == "add":
        container.add(key, given)
    elif action == "remove":
        container.remove(key)
    elif action == "replace":
        container.put(key, given)
    elif not _equal(container.child(key), given):
        raise JsonPatchTestError(f"test {path} failed")
    return root


def _found(root: Node, pointer: str) -> tuple[Node, str]:
    """The map or list that a pointer leads into, and the last step."""
    spend(pointer.count("/"))
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")]
    if len(parts) < 2:
        raise JsonPatchError(f"no path {pointer}")
    node: Node | None = root
    for part in parts[1:-1]:
        node = node.child(part) if node is not None else None
        if node is None or not (node.is_list() or node.is_map()):
            raise JsonPatchError(f"no path {pointer}")
    assert node is not None
    return node, parts[-1]


def _equal(ours: Node | None, theirs: Node | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    spend(2)
    if ours.is_map():
        if not theirs.is_map():
            return False
        left, right = ours.members, theirs.members
        assert left is not None and right is not None
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if ours.is_list():
        if not theirs.is_list():
            return False
        mine, others = ours.items, theirs.items
        assert mine is not None and others is not None
        return len(mine) == len(others) and all(map(_equal, mine, others))
    return _written(ours.raw) == _written(theirs.raw)


def _written(value: Any) -> tuple[str, Any]:
    """A value as it is written, which is what upstream compares."""
    if isinstance(value, str):
        return "str", f'"{value.text}"' if isinstance(value, WrittenText) else json_text(value)
    return type(value).__name__, value.text if isinstance(value, WrittenFloat) else value
