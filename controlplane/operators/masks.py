"""Comparison of objects: leaves by path, without what differs between runs that nothing perturbs.

A mask has two parts: what Kubernetes itself writes anew each time (times, addresses, versions, ids), and what differed
among the runs without faults of this very operator. Upstream: the masks of Sieve, `sieve_common/config.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from controlplane.operators.observation import Record

__all__ = [
    "without_random",
    "words_of",
    "Leaves",
    "Path",
    "Reference",
    "changed_leaves",
    "keys_of",
    "leaves_of",
    "reference_of",
    "summary_of",
]

Path = tuple[str, ...]
Leaves = dict[Path, Any]
ObjectKey = tuple[str, str]

_KEYS: Final = frozenset(
    """
    resourceVersion uid generation observedGeneration managedFields annotations generateName creationTimestamp
    deletionGracePeriodSeconds image imageID containerID nodeName pod-template-hash
    controller-revision-hash hostIP podIP podIPs hostIPs clusterIP clusterIPs controller-uid
    batch.kubernetes.io/controller-uid lastTransitionTime lastProbeTime startedAt restartCount lastState volumeName
    nodePort healthCheckNodePort
    """.split()
)
"""Keys that are masked wherever they stand."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")
_ADDRESS: Final = re.compile(r"\d{1,3}(\.\d{1,3}){3}(:\d+)?")
_WORD: Final = re.compile(r"[^-./]+")
_RANDOM: Final = re.compile(r"(?=.*\d)[a-z0-9]{4,}|[bcdfghjklmnpqrstvwxz2456789]{5}")
"""A word of digits and letters, or what the API server makes of a generateName."""
_GENERATED: Final = re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?=$|-)")
"""The suffix that the API server appends to a generateName, inside a value."""
_SET: Final = "SET"
"""Stands for a value that is there and differs each time."""
_UNCOUNTED: Final = frozenset(("controllerrevisions",))


def leaves_of(tree: Any, path: Path = ()) -> Leaves:
    """Return the leaves of an object that are compared, by path; list items by their name where they have one."""
    return dict(_leaves(tree, path))


def _leaves(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "ownerReferences" and isinstance(value, list | tuple):
                yield (*path, key), ", ".join(sorted(str(each.get("kind")) for each in value))
            elif key not in _KEYS and (key, *path) != ("name", "metadata"):
                yield from _leaves(value, (*path, str(key)))
        if not tree:
            yield path, {}
    elif isinstance(tree, list | tuple):
        names = [
            each.get("name") or each.get("type") if isinstance(each, dict) else None
            for each in tree
        ]
        named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
        for number, value in enumerate(tree):
            item = _GENERATED.sub("*", str(names[number])) if named else str(number)
            yield from _leaves(value, (*path, item))
        if not tree:
            yield path, []
    elif isinstance(tree, str) and _GENERATED.search(tree):
        yield path, _GENERATED.sub("*", tree)
    elif isinstance(tree, str) and (_TIME.fullmatch(tree) or _ADDRESS.fullmatch(tree)):
        yield path, _SET
    else:
        yield path, tree


def changed_leaves(before: Any, after: Any) -> list[tuple[Path, Any, Any]]:
    """Return the leaves that differ, in the order of the paths: path, value before (None: absent) and after."""
    old, new = leaves_of(before), leaves_of(after)
    paths = sorted(set(old) | set(new))
    return [
        (path, old.get(path), new.get(path)) for path in paths if old.get(path) != new.get(path)
    ]


def keys_of(
    record: Record, words: frozenset[str] | None = None
) -> dict[tuple[str, str], ObjectKey]:
    """Return the name under which each object of a run is compared.

    Generated names are cut, the operator's own objects left out. `words` are the parts of names that all runs
    without faults have in common: other parts that look random are cut, too.
    """
    found: dict[ObjectKey, ObjectKey] = {}
    for each in record.changes:
        tree = each.tree or each.before
        meta = tree.get("metadata") or {}
        if not _is_own(tree, record.family):
            name = without_random(_stable(each.name, meta), words)
            found[each.resource, each.name] = each.resource, name
    for (resource, name), tree in record.objects.items():
        if not _is_own(tree, record.family):
            stable = without_random(_stable(name, tree.get("metadata") or {}), words)
            found[resource, name] = resource, stable
    return found


def words_of(records: Sequence[Record]) -> frozenset[str]:
    """Return the parts of objects' names that all runs have in common."""
    found: list[set[str]] = [
        {word for _, name in keys_of(record).values() for word in _WORD.findall(name)}
        for record in records
    ]
    return frozenset(set.intersection(*found)) if found else frozenset()


def without_random(name: str, words: frozenset[str] | None) -> str:
    """Return a name with `*` for the parts that are in no other run and look random."""
    if words is None:
        return name

    def shown(match: re.Match[str]) -> str:
        word = match[0]
        return word if word in words or not _RANDOM.fullmatch(word) else "*"

    return _WORD.sub(shown, name)


def _is_own(tree: Any, family: frozenset[str]) -> bool:
    meta = tree.get("metadata") or {}
    if meta.get("uid") in family:
        return True
    return any(each.get("uid") in family for each in meta.get("ownerReferences") or ())


def _stable(name: str, meta: dict[str, Any]) -> str:
    """Return a name without what was generated of it."""
    prefix = meta.get("generateName")
    if prefix:
        namespace, _, bare = name.rpartition("/")
        if bare.startswith(prefix):
            return f"{namespace}/{prefix}*" if namespace else f"{prefix}*"
    owners = meta.get("ownerReferences") or ()
    if any(each.get("kind") == "Deployment" for each in owners):
        return f"{name.rpartition('-')[0]}-*"
    return name


def summary_of(
    record: Record, words: frozenset[str] | None = None
) -> dict[ObjectKey, tuple[int, int]]:
    """Return how often each object was created and deleted."""
    keys = keys_of(record, words)
    added: Counter[ObjectKey] = Counter()
    deleted: Counter[ObjectKey] = Counter()
    for each in record.changes:
        key = keys.get((each.resource, each.name))
        if key is None or each.resource in _UNCOUNTED:
            continue
        added[key] += each.before is None
        deleted[key] += each.tree is None
    return {key: (added[key], deleted[key]) for key in sorted({*added, *deleted})}


def end_of(record: Record, words: frozenset[str] | None = None) -> dict[ObjectKey, list[Leaves]]:
    """Return the leaves of the objects at the end, by the name under which they are compared."""
    keys = keys_of(record, words)
    found: dict[ObjectKey, list[Leaves]] = {}
    for place, tree in record.objects.items():
        key = keys.get(place)
        if key is not None:
            found.setdefault(key, []).append(leaves_of(tree))
    return found


@frozen
class Reference:
    """The common part of runs without faults.

    `objects` are the leaves of single objects, `counts` how many objects there are of a name, `summary` how often each
    was created and deleted; each without what differed among the runs.
    """

    objects: dict[ObjectKey, Leaves] = field(repr=False)
    counts: dict[ObjectKey, int]
    summary: dict[ObjectKey, tuple[int, int]]
    known: frozenset[ObjectKey] = field(repr=False)
    """All names of the runs, with those that are not in all of them."""
    ignored: tuple[str, ...] = ()
    words: frozenset[str] = field(default=frozenset(), repr=False)
    """The parts of names that all runs have in common."""

    def ignores(self, key: ObjectKey, path: Path = ()) -> bool:
        """Return whether the user's description leaves an object, or a leaf, out."""
        dotted = ".".join(path)
        for each in self.ignored:
            resource, _, name = each.partition(" ")
            if name:
                met = fnmatchcase(key[0], resource) and fnmatchcase(key[1], name)
            elif path:
                met = dotted == each or dotted.startswith(f"{each}.")
            else:
                met = "." not in each and fnmatchcase(key[0], each)
            if met:
                return True
        return False


def reference_of(records: Sequence[Record], ignored: Iterable[str] = ()) -> Reference:
    """Return what runs without faults have in common."""
    words = words_of(records)
    ends = [end_of(each, words) for each in records]
    summaries = [summary_of(each, words) for each in records]
    counts: dict[ObjectKey, int] = {}
    objects: dict[ObjectKey, Leaves] = {}
    for key, first in ends[0].items():
        if all(len(other.get(key, ())) == len(first) for other in ends):
            counts[key] = len(first)
            if len(first) == 1:
                objects[key] = _common([other[key][0] for other in ends])
    summary = {
        key: value
        for key, value in summaries[0].items()
        if all(other.get(key) == value for other in summaries)
    }
    known = frozenset(
        (*(key for each in ends for key in each), *(key for each in summaries for key in each))
    )
    return Reference(objects, counts, summary, known, tuple(ignored), words)


class _Varies:
    """A leaf that is not compared."""

    def __repr__(self) -> str:
        return "(varies)"


def _common(found: Sequence[Leaves]) -> Leaves:
    first = found[0]
    paths = sorted({path for each in found for path in each})
    return {
        path: first[path]
        if all(path in each and each[path] == first.get(path) for each in found)
        else _VARIES
        for path in paths
    }


_VARIES: Final = _Varies()


def varies(value: Any) -> bool:
    """Return whether a leaf is not compared."""
    return isinstance(value, _Varies)
