"""The base of all typed views: frozen objects with Kubernetes' fields under Python names.

Field names are the snake case of Kubernetes' own. Absent strings read as "", lists as (), maps as
{}; a number, bool or sub-object whose absence means something reads as None. `metadata`, `spec`
and `status` are always there. Views keep the tree they came from, so nothing is lost: a writer
sends a patch or a tree built from `view.tree`.

The decoder sits in `controlplane.api.decoding` and is loaded with the first decoded object.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import attrs

from controlplane.api.meta import ObjectMeta
from controlplane.api.tree import EMPTY_MAP, Tree

__all__ = ["EMPTY_MAP", "GenericView", "Tree", "View"]


@attrs.frozen(eq=False)
class View:
    """An object with metadata. Two views are equal only when they are the same object."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = ""

    tree: Tree = attrs.field(repr=False)
    metadata: ObjectMeta

    @classmethod
    def from_tree(cls, tree: Tree, like: Self | None = None) -> Self:
        """
        Decodes a tree. Unknown fields are ignored, null counts as absent.

        Parts that the tree shares with that of `like`, an earlier view, are taken from there.

        A malformed quantity or time raises ValueError; the API server lets none in.
        """
        decode = cls.__dict__.get("_decode")
        if decode is None:
            from controlplane.api.decoding import top_level_decoder

            decode = staticmethod(top_level_decoder(cls))
            cls._decode = decode  # type: ignore[attr-defined]
        view: Self = decode.__func__(tree, like)
        return view

    @property
    def kind(self) -> str:
        """Kind of the object, from the class when the tree does not say (items of lists)."""
        return self.tree.get("kind") or self.KIND

    @property
    def api_version(self) -> str:
        """Group and version, from the class when the tree does not say (items of lists)."""
        return self.tree.get("apiVersion") or self.API_VERSION

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """metadata.namespace, "" for cluster-scoped objects."""
        return self.metadata.namespace

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels."""
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """metadata.annotations."""
        return self.metadata.annotations

    @property
    def resource_version(self) -> str:
        """metadata.resourceVersion, opaque to clients."""
        return self.metadata.resource_version


@attrs.frozen(eq=False)
class GenericView(View):
    """A view of a kind without a class of its own: metadata typed, the rest as trees."""

    @property
    def spec(self) -> Tree:
        """The spec as it is in the tree, {} when absent."""
        return self.tree.get("spec") or EMPTY_MAP

    @property
    def status(self) -> Tree:
        """The status as it is in the tree, {} when absent."""
        return self.tree.get("status") or EMPTY_MAP

    def get(self, field: str) -> Any:
        """A top-level field by its JSON name, None when absent."""
        return self.tree.get(field)
