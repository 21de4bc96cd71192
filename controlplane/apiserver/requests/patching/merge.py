"""JSON merge patch (RFC 7386) as evanphx/json-patch 4 does it: nulls go out of new lists, too."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.requests.patching.documents import Node, node_of
from controlplane.apiserver.schema.work import spend

__all__ = ["merge_patch"]


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in; unchanged parts are shared, null removes."""
    ours, theirs = Node(target), node_of(patch)
    if theirs is None:
        return None
    return _merged(ours, theirs).plain()


def _merged(ours: Node, theirs: Node) -> Node:
    if not ours.is_map():
        _drop_nulls(theirs)
        return theirs
    if not theirs.is_map():
        return theirs
    members, changes = ours.members, theirs.members
    assert members is not None and changes is not None
    spend(len(changes))
    for key, change in changes.items():
        if change is None:
            members.pop(key, None)
            continue
        known = members.get(key)
        if known is None:
            _drop_nulls(change)
            members[key] = change
        else:
            members[key] = _merged(known, change)
    return ours


def _drop_nulls(node: Node) -> None:
    if node.is_map() and node.members is not None:
        for key in [key for key, item in node.members.items() if item is None]:
            del node.members[key]
        for item in node.members.values():
            if item is not None:
                _drop_nulls(item)
    elif node.is_list() and node.items is not None:
        for item in node.items:
            if item is not None:
                _drop_nulls(item)
