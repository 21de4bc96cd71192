"""An object as read from a file, or at rest: its bytes, parsed at the first access."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, Final

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.tree import Tree

__all__ = ["BLOCK", "Resting", "Stored", "rest"]

_set_tree = Object.__dict__["tree"].__set__
_drop_tree = Object.__dict__["tree"].__delete__


class Stored(Object[Any]):
    """The fields of `Object`, once its tree has been asked for."""

    __slots__ = ()

    def __init__(self, value: bytes) -> None:
        self._like = None
        self._view = None
        self._json = value
        self.packed = None

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        """The tree, parsed now: from here on this is an object like any other."""
        value = self._json
        assert value is not None
        tree: Tree = json.loads(value.decode("utf-8", "surrogatepass"))
        _set_tree(self, tree)
        if len(value) > KEPT_JSON:
            self._json = None
        self.__class__ = Object  # type: ignore[assignment]
        return tree


class Resting(Stored):
    """The same with its bytes packed together with others: for what is kept for long and hardly looked at."""

    __slots__ = ()

    @property
    def json(self) -> bytes:
        """The JSON bytes, unpacked at every use."""
        # The block and the place in it lie in fields that are of no use while it rests: there are many of these.
        block: Any = self._json
        place: Any = self._like
        found: bytes = _unpacked(block)[place]
        return found

    @property
    def kept_json(self) -> bytes | None:
        """None: they have to be unpacked."""
        return None

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        """The tree, unpacked and parsed now: from here on this is an object like any other."""
        self._json = self.json
        self._like = None
        self.__class__ = Stored  # type: ignore[assignment]
        return self.tree


BLOCK: Final = 8
"""The number of objects packed together: each takes two fifths of its own packed size, and a third of the time."""

_USUAL: Final = (
    b'"reason":"SuccessfulCreate","message":"Created pod: ","component":"replicaset-controller"'
    b'"reason":"Scheduled","message":"Successfully assigned default/","component":"default-scheduler"'
    b'"reason":"Pulling","message":"Pulling image \\"Container image \\" already present on machine'
    b'"reason":"Pulled","message":"Successfully pulled image \\"\\" in 1s (1s including waiting). Image size: 0 bytes.'
    b'"reason":"Created","message":"Container created","type":"Warning"'
    b'{"apiVersion":"v1","kind":"Event","metadata":{"name":"-0123456789abcdef","namespace":"default","uid":"-4",'
    b'"creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":""},"involvedObject":{"apiVersion":"v1",'
    b'"kind":"Pod","name":"-","namespace":"default","resourceVersion":"","uid":"-4","fieldPath":"spec.containers{main}"},'
    b'"reason":"Started","message":"Container started","type":"Normal","source":{"component":"kubelet","host":"node-"},'
    b'"reportingComponent":"kubelet","reportingInstance":"node-","firstTimestamp":"2026-01-01T00:00:00Z",'
    b'"lastTimestamp":"2026-01-01T00:00:00Z","count":1,"eventTime":null}'
)
"""The common bytes of Events: a compression dictionary."""
_WINDOW: Final = -13
"""8 KiB, which holds a block of Events and the above; a larger one takes longer to set up."""
_LEVEL: Final = 3
_MEMORY: Final = 6


def _packed(parts: list[bytes]) -> bytes:
    """Texts that have no line breaks, as one block."""
    packer = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _USUAL
    )
    return packer.compress(b"\n".join(parts)) + packer.flush()


def _unpacked(block: bytes) -> list[bytes]:
    unpacker = zlib.decompressobj(_WINDOW, _USUAL)
    return (unpacker.decompress(block) + unpacker.flush()).split(b"\n")


def rest(objects: Iterable[Object[Any]]) -> None:
    """Keep objects as packed bytes only, a tenth of their trees' size, until their next access.

    Right for what is seldom looked at again, in blocks of about `BLOCK`. What has a view (which holds the tree) or is
    very long stays as it is.
    """
    found: list[tuple[Object[Any], bytes]] = []
    for obj in objects:
        if type(obj) is Object and obj._view is None:
            data = obj.json
            if len(data) <= KEPT_JSON and b"\n" not in data:
                found.append((obj, data))
    if not found:
        return
    block: Any = _packed([data for _, data in found])
    for place, (obj, _) in enumerate(found):
        at: Any = place
        _drop_tree(obj)
        obj._like = at
        obj._json = block
        obj.__class__ = Resting
