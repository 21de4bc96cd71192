"""The whole scheduler with pod groups: gangs, placements, preemption for groups."""

from __future__ import annotations

from tests.golden.conversation import answer

__all__ = ["answer"]
