"""Replayed like `crud`."""

from __future__ import annotations

from tests.golden.answer_crud import answer, compare

__all__ = ["answer", "compare"]
