"""Kinds whose generation counts lists that were written without items."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context, Strategy, same

__all__ = ["CountedAsWritten"]


@frozen(kw_only=True, eq=False)
class CountedAsWritten(Strategy):
    """Kinds whose generation counts each write of a list without items, which is not the same as none.

    What is stored never has such lists, so a write that has one is a change each time. `counted` is
    the part that counts. Upstream compares by reflect.DeepEqual where other kinds call both equal:
    pkg/registry/networking/networkpolicy and pkg/registry/admissionregistration/*webhookconfiguration.
    """

    counted: str = "spec"

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        before = old["metadata"].get("generation", 0)
        new = super().prepare_update(ctx, new, old)
        meta = new["metadata"]
        written, read = ctx.written(self.counted), new.get(self.counted)
        if meta.get("generation", 0) == before and _without_items(written, read):
            return {**new, "metadata": {**meta, "generation": before + 1}}
        return new

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update increments the generation."""
        return not same(new, old, self.counted)


def _without_items(written: Any, read: Any) -> bool:
    """Return whether a list or a map of labels was written without items and no default replaces it."""
    if isinstance(written, list):
        if not written:
            return not read
        return any(_without_items(*pair) for pair in zip(written, read or (), strict=False))
    if isinstance(written, dict):
        read = read if isinstance(read, dict) else {}
        return written.get("matchLabels") == {} or any(
            _without_items(part, read.get(key)) for key, part in written.items()
        )
    return False
