"""Secrets as drivers get them."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.tree import Tree


def decoded(secret: Tree) -> dict[str, str]:
    """The data of a secret as text."""
    data = secret.get("data") or {}
    return {key: b64decode(value).decode("utf-8", "replace") for key, value in data.items()}
