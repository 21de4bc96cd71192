"""LimitRanger and ResourceQuota."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.strategy import Context

__all__ = ["limit_check", "limit_defaults", "quota_check"]

Tree = dict[str, Any]


def limit_defaults(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Containers get the default requests and limits of the namespace's limit ranges."""
    return tree


def limit_check(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """Requests and limits lie within the namespace's limit ranges."""


def quota_check(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """The object fits the namespace's quotas, whose usage it adds to."""
