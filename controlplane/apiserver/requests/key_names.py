"""Names that no key of the store can have. Upstream: apiserver registry/generic/registry, NamespaceKeyFunc."""

from __future__ import annotations

from controlplane.api.validation import quote
from controlplane.apiserver.kinds.names import path_segment
from controlplane.apiserver.schema import status

__all__ = ["check_key_name"]


def check_key_name(name: str) -> None:
    """Refuse a name that is missing or cannot stand in a path. ApiError 400."""
    if not name:
        raise status.bad_request("Name parameter required.")
    problems = path_segment(name)
    if problems:
        raise status.bad_request(f"Name parameter invalid: {quote(name)}: {';'.join(problems)}")
