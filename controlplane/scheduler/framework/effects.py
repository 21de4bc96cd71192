"""Effects of the decisions of a scheduling attempt: gaps between lock regions, requests, and waits."""

from __future__ import annotations

from typing import TypeVar

from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, ConnectionLost
from controlplane.decisions import Decision, Locked, Point, Sleep

__all__ = ["Call", "Effects", "RequestFailed"]

R = TypeVar("R")

Effects = Decision[Point | Locked | Call | Sleep, R]
"""A decision in steps that also makes requests to the API server and waits.

A wait that was cut short is answered by the cause, in a text.
"""

RequestFailed = (ApiError, ConnectionLost)
"""The failures of a request; for `except`."""
