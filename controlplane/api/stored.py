"""An object as it was read from a file, or as it rests: its bytes, parsed when somebody looks at it first."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.tree import Tree

__all__ = ["Resting", "Stored", "rest"]

_set_tree = Object.__dict__["tree"].__set__
_drop_tree = Object.__dict__["tree"].__delete__


class Stored(Object[Any]):
    """What `Object` is, once its tree has been asked for."""

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
    """The same with its bytes packed: for what is kept for long and looked at by hardly anybody."""

    __slots__ = ()

    @property
    def json(self) -> bytes:
        """The JSON bytes, unpacked at every use."""
        packed = self._json
        assert packed is not None
        return _unpacked(packed)

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        """The tree, unpacked and parsed now: from here on this is an object like any other."""
        self._json = self.json
        self.__class__ = Stored  # type: ignore[assignment]
        return self.tree


_USUAL: Final = (
    b'{"kind":"Event","apiVersion":"v1","metadata":{"name":"-0123456789abcdef","namespace":"default","uid":"-4",'
    b'"resourceVersion":"","creationTimestamp":"2025-01-01T00:00:00Z","managedFields":[{"manager":"kubelet",'
    b'"operation":"Update","apiVersion":"v1","time":"2025-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":'
    b'{"f:action":{},"f:count":{},"f:eventTime":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:lastTimestamp":{},'
    b'"f:message":{},"f:reason":{},"f:reportingComponent":{},"f:reportingInstance":{},"f:source":'
    b'{"f:component":{},"f:host":{}},"f:type":{}}}]},"involvedObject":{"kind":"ReplicaSet","namespace":"default",'
    b'"name":"-","uid":"-4","apiVersion":"apps/v1","resourceVersion":"","fieldPath":"spec.containers{main}"},'
    b'"reason":"SuccessfulCreate","message":"Created pod: Successfully assigned default/ to node-","source":'
    b'{"component":"default-scheduler","host":"node-"},"firstTimestamp":"2025-01-01T00:00:00Z","lastTimestamp":'
    b'"2025-01-01T00:00:00Z","count":1,"type":"Warning","type":"Normal","eventTime":null,"action":"Binding",'
    b'"eventTime":"2025-01-01T00:00:00.000000Z","reason":"Scheduled","message":"Container started",'
    b'"firstTimestamp":null,"lastTimestamp":null,"source":{},"reportingComponent":"kubelet",'
    b'"reportingInstance":"node-"}'
)
"""What the bytes of an Event mostly consist of: what is packed refers to it."""
_WINDOW: Final = (
    -11
)  # 2 KiB, which holds an Event and the above; a larger one takes longer to set up


def _packed(data: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, 4, zlib.Z_DEFAULT_STRATEGY, _USUAL)
    return packer.compress(data) + packer.flush()


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(_WINDOW, _USUAL)
    return unpacker.decompress(packed) + unpacker.flush()


def rest(obj: Object[Any]) -> None:
    """Keep an object as packed bytes only, a tenth of what its tree takes, until somebody looks at it.

    Right for what is seldom looked at again. What has a view (which holds the tree) or is very long stays as it is.
    """
    if type(obj) is not Object or obj._view is not None:
        return
    data = obj.json
    if len(data) <= KEPT_JSON:
        _drop_tree(obj)
        obj._like = None
        obj._json = _packed(data)
        obj.__class__ = Resting
