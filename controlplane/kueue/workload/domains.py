"""The domains that an encoded topology assignment (API version v1beta2) stands for.

Follows `InternalSeqFrom` of `pkg/util/tas/tas_assignment.go`.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.api.tree import Tree


def domains_of(assignment: Tree) -> Iterator[tuple[tuple[str, ...], int]]:
    """Level values and pod count of each domain of a `topologyAssignment`, in order."""
    levels = assignment.get("levels") or ()
    for piece in assignment.get("slices") or ():
        values = piece.get("valuesPerLevel") or ()
        counts = piece.get("podCounts") or {}
        for at in range(int(piece.get("domainCount") or 0)):
            yield (
                tuple(_value(values[level], at) for level in range(len(levels))),
                _count(counts, at),
            )


def _value(values: Tree, at: int) -> str:
    universal = values.get("universal")
    if universal is not None:
        return str(universal)
    individual = values["individual"]
    return (
        f"{individual.get('prefix') or ''}{individual['roots'][at]}{individual.get('suffix') or ''}"
    )


def _count(counts: Tree, at: int) -> int:
    universal = counts.get("universal")
    return int(universal if universal is not None else counts["individual"][at])
