"""Objects of arbitrary kinds within an object: the server keeps them as the text that they came as.

Two of them are equal when their bytes are, so the same content with other spaces is another one:
a patch, which is written out compactly, changes what a client once sent with spaces. Upstream:
runtime.RawExtension in apimachinery.
"""

from __future__ import annotations

import json
from json.decoder import JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

from controlplane.api.tree import Tree

__all__ = ["RawExtension", "compact", "keep_texts"]

_CONFIG = ("config", "*", "opaque", "parameters")
_PLACES: dict[str, tuple[tuple[str, ...], ...]] = {
    "ControllerRevision": (("data",),),
    "DeviceClass": (("spec", *_CONFIG),),
    "ResourceClaim": (
        ("spec", "devices", *_CONFIG),
        ("status", "allocation", "devices", *_CONFIG),
        ("status", "devices", "*", "data"),
    ),
    "ResourceClaimTemplate": (("spec", "spec", "devices", *_CONFIG),),
}


class RawExtension(dict[str, Any]):
    """An object whose text is not the compact one, which a plain dict stands for.

    The text is kept in memory only: read back from a file, the object is equal to a compact one.
    """

    __slots__ = ("text",)

    def __init__(self, value: Tree, text: str) -> None:
        super().__init__(value)
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawExtension) and self.text == other.text

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __copy__(self) -> RawExtension:
        return self

    def __deepcopy__(self, _memo: object) -> RawExtension:
        return self


class _Texts(json.JSONDecoder):
    """Reads objects together with the texts that they stood as."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_object = self._object
        self.scan_once = py_make_scanner(self)

    @staticmethod
    def _object(place: tuple[str, int], *rest: Any) -> tuple[RawExtension, int]:
        found, end = JSONObject(place, *rest)
        text, start = place
        return RawExtension(found, text[start - 1 : end]), end


def keep_texts(kind: str, body: Tree, raw: bytes) -> None:
    """Note in a body just read from JSON the texts of such objects that are not compact."""
    places = _PLACES.get(kind, ())
    if not places:
        return
    whole = _Texts().decode(raw.decode("utf-8", "replace"))
    for path in places:
        _keep(body, whole, path)


def _keep(body: Any, whole: Any, path: tuple[str, ...]) -> None:
    key, *rest = path
    if key == "*":
        if isinstance(body, list):
            for item, found in zip(body, whole, strict=True):
                _keep(item, found, tuple(rest))
        return
    if not isinstance(body, dict) or key not in body:
        return
    if rest:
        _keep(body[key], whole[key], tuple(rest))
    elif isinstance(whole[key], RawExtension):
        value, text = body[key], whole[key].text
        if text != json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True):
            body[key] = RawExtension(value, text)


def compact(kind: str, tree: Tree) -> Tree:
    """The tree as it is written out to be patched: with compact texts."""
    for path in _PLACES.get(kind, ()):
        tree = _compact(tree, path)
    return tree


def _compact(value: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return dict(value) if isinstance(value, RawExtension) else value
    key, *rest = path
    if key == "*":
        return [_compact(item, tuple(rest)) for item in value] if isinstance(value, list) else value
    if not isinstance(value, dict) or key not in value:
        return value
    inner = _compact(value[key], tuple(rest))
    return value if inner is value[key] else {**value, key: inner}
