"""Answers as bytes: JSON, YAML, pretty for people, compressed when long.

Large lists are encoded item by item, so that an answer never stands in memory as a whole.
Upstream: apiserver pkg/endpoints/handlers/responsewriters, pkg/runtime/serializer/json.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.apiserver.frontend import HttpAnswer

__all__ = ["GZIP_FROM", "compressed", "encoded", "pieces", "pretty_wanted", "watch_line"]

GZIP_FROM = 128 * 1024
"""Bodies of at least so many bytes are compressed. Upstream: responsewriters, defaultGzipThresholdBytes."""
GZIP_LEVEL = 1
PIECE = 256 * 1024
"""Lists are sent in pieces of about so many bytes."""
LONG_LIST = 100
"""Lists with more items than this are encoded item by item."""
_PEOPLE = ("curl", "Wget", "Mozilla/5.0")


def _dumped(tree: Any) -> bytes:
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _yaml(tree: Any) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(tree, Dumper=dumper, sort_keys=True, allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


def pretty_wanted(query: dict[str, list[str]], user_agent: str) -> bool:
    """Whether the body is for people: asked for, or the client is a browser or curl."""
    asked = query.get("pretty")
    if asked:
        return asked[0] in ("true", "1", "")
    return user_agent.startswith(_PEOPLE)


def encoded(answered: HttpAnswer, *, pretty: bool) -> bytes | Iterator[bytes]:
    """The body; an iterator over its pieces when it is a long list."""
    if answered.text is not None:
        return answered.text.encode("utf-8", "surrogatepass")
    tree = answered.tree
    if tree is None:
        return b""
    media = answered.headers.get("Content-Type", "")
    if isinstance(media, str) and media.startswith("application/yaml"):
        return _yaml(tree)
    if pretty:
        text = json.dumps(tree, ensure_ascii=False, indent=2)
        return text.encode("utf-8", "surrogatepass")
    for key in ("items", "rows"):
        if isinstance(tree, dict) and isinstance(tree.get(key), list):
            if len(tree[key]) > LONG_LIST:
                return pieces(tree, key)
    return _dumped(tree) + b"\n"


def pieces(tree: dict[str, Any], key: str) -> Iterator[bytes]:
    """A list object, encoded item by item in pieces of about `PIECE` bytes."""
    head = _dumped({name: value for name, value in tree.items() if name != key})
    buffer = bytearray(head[:-1])
    buffer += (b"," if len(head) > 2 else b"") + b'"%s":[' % key.encode()
    first = True
    for item in tree[key]:
        if not first:
            buffer += b","
        first = False
        buffer += _dumped(item)
        if len(buffer) >= PIECE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer) + b"]}\n"


def compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes as a gzip stream."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for chunk in chunks:
        data = packer.compress(chunk)
        if data:
            yield data
    yield packer.flush()


def watch_line(tree: dict[str, Any], media_type: str) -> bytes:
    """One event of a watch: a line of JSON, or a YAML document."""
    if media_type == "application/yaml":
        return b"---\n" + _yaml(tree)
    return _dumped(tree) + b"\n"
