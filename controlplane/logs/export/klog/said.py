"""One message of a component, as klog has it, before it is text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.logs.reading import Line

__all__ = ["Said", "Teller", "info", "key_of", "problem"]


class Said(NamedTuple):
    """Severity (I, W, E), verbosity, upstream's file, text, keys and values."""

    severity: str
    verbosity: int
    file: str
    text: str
    values: dict[str, Any]


Teller = Callable[[Line], list[Said]]
"""A function that returns a component's log lines for an event."""


def info(verbosity: int, file: str, text: str, **values: Any) -> Said:
    """Return a log line at a verbosity."""
    return Said("I", verbosity, file, text, values)


def problem(file: str, text: str, **values: Any) -> Said:
    """An error, which is said at any verbosity."""
    return Said("E", 0, file, text, values)


def key_of(line: Line) -> str:
    """namespace/name, as klog.KObj writes it."""
    return line.obj.partition("/")[2]
