"""Objects through the strategies of their kinds, see `strategy_cases`."""

from __future__ import annotations

from tests.golden.strategy_cases import answer, compare

__all__ = ["answer", "compare"]
