"""Booleans in the queries of requests: one rule for authorization, routing and the options of every verb."""

from __future__ import annotations

__all__ = ["flag"]


def flag(value: str | None) -> bool:
    """Return a boolean of a query: absent, `0`, and `false` in any case are no; everything else is yes.

    Source: apimachinery pkg/runtime/conversion.go, Convert_Slice_string_To_bool.
    """
    return value is not None and value != "0" and value.casefold() != "false"
