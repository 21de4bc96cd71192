"""ServiceAccounts. Upstream: pkg/registry/core/serviceaccount."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import plain_row
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy

__all__ = ["KIND"]


class AccountStrategy(Strategy):
    """Service accounts: of their secrets only the names are kept."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return super().prepare_create(ctx, _secrets_named(tree))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return super().prepare_update(ctx, _secrets_named(new), old)

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """Warn where the deprecated annotation on mounted secrets appears."""
        if not _enforces(tree) or (old is not None and _enforces(old)):
            return []
        return [
            f"metadata.annotations[{_ENFORCED}]: deprecated in v1.32+; prefer separate namespaces "
            "to isolate access to mounted secrets"
        ]


_ENFORCED = "kubernetes.io/enforce-mountable-secrets"


def _enforces(tree: Tree) -> bool:
    return _ENFORCED in (tree["metadata"].get("annotations") or {})


def _secrets_named(tree: Tree) -> Tree:
    secrets = tree.get("secrets")
    if not secrets or all(list(secret) == ["name"] for secret in secrets):
        return tree
    named = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]
    return {**tree, "secrets": named}


KIND = Kind(
    strategy=AccountStrategy(has_status=False, returns_deleted=True, meta_steps="UA"),
    row=plain_row(),
)
