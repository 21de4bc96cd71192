"""Moved: the values that travel between components and server live in `controlplane.api.request`."""

from controlplane.api.request import ADMIN, JSON, Request, Response, User

__all__ = ["ADMIN", "JSON", "Request", "Response", "User"]
