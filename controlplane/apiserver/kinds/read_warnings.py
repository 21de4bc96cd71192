"""Warnings that every answer about a kind has. They stand apart from the kinds: a list needs nothing else of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ENDPOINTS", "READ_WARNINGS"]

ENDPOINTS: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
READ_WARNINGS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {("", "endpoints"): (ENDPOINTS,)}
"""Warnings by group and resource. Upstream: WarningsOnGet of the strategies."""
