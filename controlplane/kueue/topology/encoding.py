"""The compact form of topology assignments in API version v1beta2.

A slice holds consecutive domains; what their names share is written once. Follows `V1Beta2From` of
`pkg/util/tas/tas_assignment.go`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.assignment import Assignment, DomainCount, ends_at_nodes

MAX_DOMAINS: Final = 100_000
"""Domains of one slice."""
MAX_SLICES: Final = 1_000

Domains = Sequence[DomainCount]


def encoded(assignment: Assignment, gates: Gates) -> Tree:
    """Encode an assignment; of the forms that are valid, the one with the shorter JSON."""
    whole = [assignment.domains] if assignment.domains else []
    if not gates.enabled("TASAssignmentsEncodingByHostnamePrefix"):
        return _form(assignment, whole)
    by_prefix = _form(assignment, _chunks(_runs(assignment)))
    if len(by_prefix.get("slices", ())) <= 1 or len(assignment.domains) > MAX_DOMAINS:
        return by_prefix
    single = _form(assignment, whole)
    return single if _size(single) < _size(by_prefix) else by_prefix


def _size(form: Tree) -> int:
    # Go escapes these characters; label values do not have them, so the lengths agree.
    return len(json.dumps(form, separators=(",", ":"), ensure_ascii=False).encode())


def _form(assignment: Assignment, pieces: Sequence[Domains]) -> Tree:
    form: Tree = {"levels": list(assignment.levels)}
    if pieces:
        form["slices"] = [_slice(len(assignment.levels), piece) for piece in pieces]
    return form


def _slice(levels: int, domains: Domains) -> Tree:
    counts = [each.count for each in domains]
    same = counts.count(counts[0]) == len(counts)
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [
            _values([each.values[level] for each in domains]) for level in range(levels)
        ],
        "podCounts": {"universal": counts[0]} if same else {"individual": counts},
    }


def _values(values: list[str]) -> Tree:
    """The values of one level. Prefix and suffix are measured in bytes; names are ASCII."""
    prefix = _common_beginning(values)
    if all(len(prefix) == len(each) for each in values):
        return {"universal": prefix}
    suffix = _common_beginning([each[::-1] for each in values])[::-1]
    shortest = min(map(len, values))
    prefix = prefix[: shortest - len(suffix)]
    individual: Tree = {}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    individual["roots"] = [each[len(prefix) : len(each) - len(suffix)] for each in values]
    return {"individual": individual}


def _common_beginning(values: list[str]) -> str:
    """The common beginning of all texts: the least and the greatest of them decide it."""
    least, greatest = min(values), max(values)
    for at, letter in enumerate(least):
        if greatest[at] != letter:
            return least[:at]
    return least


def _chunks(runs: Sequence[Domains]) -> list[Domains]:
    return [run[at : at + MAX_DOMAINS] for run in runs for at in range(0, len(run), MAX_DOMAINS)]


def _runs(assignment: Assignment) -> list[Domains]:
    """Consecutive domains whose node names share a prefix that occurs at least twice."""
    domains = assignment.domains
    if len(domains) <= 1 or not ends_at_nodes(assignment.levels):
        return [domains] if domains else []
    keys = _prefix_keys([each.values[-1] for each in domains])
    if keys is None:
        return [domains]
    return [
        [domain for _, domain in run]
        for _, run in groupby(zip(keys, domains, strict=True), key=lambda pair: pair[0])
    ]


def _prefix_keys(names: list[str]) -> list[str] | None:
    """For each name its longest reused prefix, shorter ones when that would make too many slices."""
    prefixes = [tuple(_prefixes(name)) for name in names]
    uses = Counter(prefix for each in prefixes for prefix in each)
    for depth in range(max(map(len, prefixes)), 0, -1):
        keys = [
            next((prefix for prefix in reversed(each[:depth]) if uses[prefix] > 1), "")
            for each in prefixes
        ]
        lengths = (len(list(run)) for _, run in groupby(keys))
        if sum(-(-length // MAX_DOMAINS) for length in lengths) <= MAX_SLICES:
            return keys
    return None


def _prefixes(name: str) -> Iterator[str]:
    """The text up to and including each dash, except for a dash at the end."""
    for at, letter in enumerate(name[:-1]):
        if letter == "-":
            yield name[: at + 1]
