"""Text of a template's results. Upstream: PrintResults of client-go util/jsonpath/jsonpath.go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.api.go_values import go_json, go_value
from controlplane.api.jsonpath.nodes import NOTHING

__all__ = ["printed"]


def printed(results: Iterable[Any]) -> str:
    """Results of one part of a template, with a blank between two of them."""
    return " ".join(map(_text, results))


def _text(value: Any) -> str:
    """Maps and lists as JSON, everything else as Go prints it."""
    if value is None:
        return "null"
    if value is NOTHING:
        return "<no value>"
    return go_json(value) if isinstance(value, (dict, list)) else go_value(value)
