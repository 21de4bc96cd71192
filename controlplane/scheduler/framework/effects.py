"""Effects of the decisions of a scheduling attempt: gaps between lock regions, requests, and waits."""

from __future__ import annotations

from typing import TypeVar

from attrs import frozen

from controlplane.client.calls import Call
from controlplane.client.errors import RequestFailed
from controlplane.decisions import Decision, Locked, Point, Sleep

__all__ = ["Call", "Effects", "Evictions", "RequestFailed"]

R = TypeVar("R")


@frozen
class Evictions:
    """Carry out the evictions that PostFilters have decided on; sent an error text, "" when all went well."""


Effects = Decision[Point | Locked | Call | Sleep | Evictions, R]
"""A decision in steps that also makes requests to the API server and waits."""
