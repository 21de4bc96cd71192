"""The whole scheduler with scores of devices."""

from __future__ import annotations

from tests.golden.conversation import answer

__all__ = ["answer"]
