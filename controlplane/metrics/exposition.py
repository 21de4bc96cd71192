"""The text format that Prometheus reads, version 0.0.4.

Written by hand, for `prometheus_client` keeps counters behind locks, stamps them with the wall clock
and reads the process's environment when it is imported; what would be left to it is this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite, isnan
from typing import Final

from controlplane.metrics.family import Buckets, Family
from controlplane.metrics.numbers import Labels

__all__ = ["CONTENT_TYPE", "number", "text_of"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def text_of(families: Iterable[Family]) -> str:
    """All families, each with its help and type, in the order given."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def number(value: float) -> str:
    """A number in its shortest form: whole ones without a point; infinity as +Inf, no number as NaN."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _lines(family: Family) -> Iterator[str]:
    name = family.name
    yield f"# HELP {name} {_escaped(family.help)}"
    yield f"# TYPE {name} {family.kind}"
    for sample in family.samples:
        labels, value = sample.labels, sample.value
        if not isinstance(value, Buckets):
            yield f"{name}{_braced(labels)} {number(value)}"
            continue
        for bound, count in zip(value.bounds, value.at_most):
            yield f"{name}_bucket{_braced(labels, number(bound))} {count}"
        yield f"{name}_bucket{_braced(labels, '+Inf')} {value.count}"
        yield f"{name}_sum{_braced(labels)} {number(value.sum)}"
        yield f"{name}_count{_braced(labels)} {value.count}"


def _braced(labels: Labels, bound: str = "") -> str:
    parts = [f'{name}="{_quoted(value)}"' for name, value in labels]
    if bound:
        parts.append(f'le="{bound}"')
    return "{" + ",".join(parts) + "}" if parts else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
