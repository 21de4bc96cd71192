"""Strategies by resource."""

from __future__ import annotations

from controlplane.apiserver.kinds.strategies.registered import strategy_for

__all__ = ["strategy_for"]
