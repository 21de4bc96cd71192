"""The input of discovery and OpenAPI: the table of resources, and the server's own facts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.options import EMULATED_KEY
from controlplane.apiserver.schema.resources import ResourceTable

__all__ = ["Answer", "Served"]

Answer = tuple[int, dict[str, str | list[str]], Any, str | None]
"""Code, headers, JSON body, text body."""


@frozen
class Served:
    """The served resources, the build, the address, and the key that signs tokens, whose public half is published."""

    table: ResourceTable
    build: Tree
    address: str
    trouble: Callable[[], str] = field(default=str, repr=False)
    """Returns why writes fail, "" while they succeed."""
    token_key: bytes = field(default=EMULATED_KEY, repr=False)
    earlier: str = ""
    """The release, "" for the latest."""
