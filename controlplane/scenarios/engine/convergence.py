"""The differences between two settled clusters, except those that occur without any fault.

The end of a run is a set of objects. Fields that say who, when and where are masked, and so is every
field in which runs without faults differ among themselves (Sieve, OSDI 2022).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controlplane.api.object import Object

Tree = dict[str, Any]
Path = tuple[str, ...]
End = dict[str, list[Tree]]
"""The objects of a settled world by kind, namespace and name; several where names are generated."""

ENDED = ("Succeeded", "Failed")
PASSING = ("Event", "Lease")
"""Kinds that tell what happened, not how things are."""
METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
"""The compared fields of an object's metadata."""
MASKED = frozenset(
    (
        "uid",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "nodeName",
        "nominatedNodeName",
        "hostIP",
        "hostIPs",
        "podIP",
        "podIPs",
        "clusterIP",
        "clusterIPs",
        "containerID",
        "imageID",
        "message",
        "restartCount",
        "lastState",
        "leaseTransitions",
        "endpoints.kubernetes.io/last-change-trigger-time",
        "deployment.kubernetes.io/revision",
        "deployment.kubernetes.io/revision-history",
    )
)
"""Fields that are masked wherever they stand; and so are those whose name ends in Time, Timestamp or Probe."""
ANY = "*"


def end_of(objects: Iterable[Object]) -> End:
    """The compared fields of these objects."""
    found: End = {}
    for obj in objects:
        tree = obj.tree
        if tree.get("kind") in PASSING:
            continue
        metadata = tree["metadata"]
        key = f"{tree['kind']} {metadata.get('namespace', '')}/{_name(metadata)}"
        found.setdefault(key, []).append(_masked(_compared(tree, metadata)))
    for trees in found.values():
        trees.sort(key=_text)
    return found


def state_of(objects: Iterable[Object]) -> dict[str, Tree]:
    """The compared fields of these objects by kind, namespace and name, with the object's uid: which one it is.

    Of the status of a pod that has ended only the phase is compared: a kubelet that starts has no allocation of it.
    """
    found: dict[str, Tree] = {}
    for obj in objects:
        tree = obj.tree
        if tree.get("kind") in PASSING:
            continue
        metadata = tree["metadata"]
        kept = _kept(metadata)
        key = f"{tree['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
        if tree["kind"] == "Pod" and tree.get("status", {}).get("phase") in ENDED:
            tree = {**tree, "status": {"phase": tree["status"]["phase"]}}
        found[key] = {**_masked({**tree, "metadata": kept}), "object": metadata["uid"]}
    return found


def change(before: Mapping[str, Tree], after: Mapping[str, Tree]) -> str | None:
    """The first thing in which a later state differs, in one line; None where nothing does."""
    for key in sorted({**before, **after}):
        one, other = before.get(key), after.get(key)
        if one is None or other is None:
            return f"{key} is {'there' if one is None else 'gone'}"
        for path, was, became in _inside((), one, other):
            return f"{key}: {'.'.join(path)} was {_short(was)} and is {_short(became)}"
    return None


def _name(metadata: Tree) -> str:
    """The name; without the random part if it was generated."""
    base = metadata.get("generateName")
    return f"{base}{ANY}" if base else metadata["name"]


def _kept(metadata: Tree) -> Tree:
    return {key: metadata[key] for key in METADATA if key in metadata}


def _compared(tree: Tree, metadata: Tree) -> Tree:
    kept = _kept(metadata)
    if MASKED.issuperset(kept.get("annotations", ())):
        kept.pop("annotations", None)
    if "generateName" in metadata:
        kept["name"] = _name(metadata)
    return {**tree, "metadata": kept}


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _masked(item)
            for key, item in value.items()
            if key not in MASKED and not key.endswith(("Time", "Timestamp", "Probe"))
        }
    if isinstance(value, list):
        items = [_masked(item) for item in value]
        return sorted(items, key=_text)
    return value


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def unstable(ends: Sequence[End]) -> dict[str, frozenset[Path]]:
    """The unexpected differences: paths by key; the path () if even the number of objects differs."""
    found: dict[str, dict[Path, None]] = {}
    first = ends[0]
    for other in ends[1:]:
        for key in {**first, **other}:
            for path, _, _ in _differences(first.get(key, []), other.get(key, [])):
                found.setdefault(key, {})[path] = None
    return {key: frozenset(paths) for key, paths in found.items()}


def difference(end: End, expected: End, masks: dict[str, frozenset[Path]]) -> str | None:
    """The first thing in which an end is not as expected, in one line; None when it is."""
    for key in sorted({**end, **expected}):
        hidden = masks.get(key, frozenset())
        for path, is_so, should_be in _differences(end.get(key, []), expected.get(key, [])):
            if any(path[: len(mask)] == mask for mask in hidden):
                continue
            if not path:
                return f"{key}: there are {is_so}, and {should_be} when nothing fails"
            where = ".".join(path)
            return f"{key}: {where} is {_short(is_so)}, and {_short(should_be)} when nothing fails"
    return None


def _short(value: Any) -> str:
    text = "absent" if value is None else _text(value)
    return text if len(text) < 100 else text[:97] + "..."


def _differences(some: Sequence[Tree], others: Sequence[Tree]) -> Iterator[tuple[Path, Any, Any]]:
    if len(some) != len(others):
        yield (), len(some), len(others)
        return
    for one, other in zip(some, others, strict=True):
        yield from _inside((), one, other)


def _inside(path: Path, one: Any, other: Any) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({**one, **other}):
            yield from _inside((*path, key), one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (item, its) in enumerate(zip(one, other, strict=True)):
            yield from _inside((*path, str(at)), item, its)
    elif one != other:
        yield path, one, other
