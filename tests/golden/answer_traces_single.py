"""Whole conversations of snapshot controller, sidecar, driver and volume controllers."""

from __future__ import annotations

from tests.golden.snapshots_compare import answer, compare

__all__ = ["answer", "compare"]
