"""Notices to clients outside about objects that nothing in this cluster acts on.

They exist in the emulation alone: a real server cannot know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.request import Request
    from controlplane.api.tree import Tree
    from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["Notices"]

_MOST: Final = 1024
"""Notices and resources that are remembered each; of an older notice a client may hear again."""
_LONGEST: Final = 256
"""Characters of a User-Agent or a text that tell it from others."""


class Notices:
    """Notices that were given, and resources that clients outside have begun to watch.

    A client is its user and its User-Agent. Requests of components inside of the world have no path; neither
    do they hear notices nor do their watches count, as some of them watch every kind.
    """

    def __init__(self, text: Callable[[ResourceInfo, Tree, bool], str] | None) -> None:
        self._text = text
        self._watched: dict[str, None] = {}
        self._given: dict[tuple[str, str, str], None] = {}

    def watch_opened(self, info: ResourceInfo, request: Request) -> None:
        """Note that a client follows a resource: it may well act on its objects."""
        if self._text is not None and request.path:
            _remember(self._watched, info.qualified)

    def at_creation(self, info: ResourceInfo, request: Request, tree: Tree) -> str:
        """The notice for the creation of an object, "" for none or one that the client was given before."""
        if self._text is None or not request.path:
            return ""
        text = self._text(info, tree, info.qualified in self._watched)
        key = (request.user.name, request.user_agent[:_LONGEST], text[:_LONGEST])
        if not text or key in self._given:
            return ""
        _remember(self._given, key)
        return text


def _remember(known: dict[Any, None], key: Any) -> None:
    """Note a key, and forget the oldest one where there are too many."""
    known[key] = None
    if len(known) > _MOST:
        del known[next(iter(known))]
