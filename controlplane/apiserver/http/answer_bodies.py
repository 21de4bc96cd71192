"""Answers as bytes: JSON, YAML, pretty for people, compressed when long.

Lists are encoded item by item while they are sent, so that an answer never stands in memory as a
whole; what several clients are being sent at the same time is encoded once. Upstream: apiserver
pkg/endpoints/handlers/responsewriters, apimachinery pkg/runtime/serializer/json (collections.go).
"""

from __future__ import annotations

import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from controlplane.api.json_text import compact, joined
from controlplane.api.object import KEPT_JSON
from controlplane.apiserver.front.answering import untyped
from controlplane.apiserver.schema.cbor import writing as cbor
from controlplane.apiserver.schema.protobuf.reading import MEDIA_TYPE
from controlplane.apiserver.schema.protobuf.writing import event_frame

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.apiserver.front.answering import HttpAnswer, Listing
    from controlplane.apiserver.storage.watch_cache import WatchEvent

__all__ = [
    "GZIP_FROM",
    "PIECE",
    "Chunk",
    "Late",
    "compressed",
    "encoded",
    "event_parts",
    "pieces",
    "pretty_wanted",
    "regrouped",
    "short_line",
    "watch_line",
]

Chunk = bytes | bytearray | memoryview

GZIP_FROM: Final = 128 * 1024
"""The least size, in bytes, of a compressed body. Upstream: responsewriters, defaultGzipThresholdBytes."""
GZIP_LEVEL: Final = 1
PIECE: Final = 256 * 1024
"""The size, in bytes, of the pieces in which long bodies are sent."""
GROUP: Final = 64
"""The number of short items of a list that are joined at once, which takes a third of the time of one by one."""
_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_MANY = ("items", "rows")


def _indented(tree: Any, level: int = 0) -> bytes:
    text = json.dumps(tree, ensure_ascii=False, indent=2)
    if level:
        text = text.replace("\n", "\n" + "  " * level)  # strings have no line ends of their own
    return text.encode("utf-8", "surrogatepass")


def _yaml(tree: Any) -> bytes:
    import yaml

    text: str = yaml.dump(tree, Dumper=_dumper(), sort_keys=True, allow_unicode=True)
    return text.encode("utf-8", "surrogatepass")


@cache
def _dumper() -> Any:
    """The class that writes YAML, for trees whose numbers and texts know the text that they came as."""
    from controlplane.api.yaml_text import dumper

    fastest = dumper()
    made: Any = type("Dumper", (fastest,), {})
    made.add_multi_representer(
        float, _number
    )  # numbers and objects that know the text they came as
    made.add_multi_representer(dict, fastest.represent_dict)
    made.add_multi_representer(str, fastest.represent_str)
    return made


def _number(dumper: Any, value: float) -> Any:
    """A number with a fraction; a whole one as Go writes it."""
    if value.is_integer() and abs(value) < _WHOLE:
        return dumper.represent_int(int(value))
    return dumper.represent_float(float(value))


_WHOLE: Final = 1e21
"""From here on Go writes an exponent."""


_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
"""The values that strconv.ParseBool reads as true; only this option is read with it."""


def pretty_wanted(query: dict[str, list[str]], user_agent: str) -> bool:
    """Return whether the body is to be indented: requested, or the client is a browser or curl."""
    asked = (query.get("pretty") or [""])[0]
    if asked:
        return asked in _TRUE
    return user_agent.startswith(_PEOPLE)


def encoded(answered: HttpAnswer, *, pretty: bool) -> Iterator[Chunk]:
    """Return the encoded body: lists in pieces of `PIECE` bytes, anything else in one.

    An answer that is to be `whole` comes in pieces, too: the sender joins them.
    """
    if answered.unpacked:
        deque(answered.pack(), maxlen=0)
    parts = _collected(answered, pretty=pretty)
    if parts is None:
        return iter((_single(answered, pretty=pretty),))
    return regrouped(parts)


def _single(answered: HttpAnswer, *, pretty: bool) -> bytes:
    if answered.packed is not None:
        return answered.packed
    if answered.text is not None:
        return answered.text.encode("utf-8", "surrogatepass")
    tree = answered.tree
    if tree is None:
        return b""
    if isinstance(tree, bytes):  # made already: the OpenAPI document in protobuf
        return tree
    if _media(answered).startswith("application/yaml"):
        return _yaml(tree)
    if pretty:
        return _indented(tree)
    return (compact(tree) if answered.object is None else answered.object.json) + b"\n"


def _media(answered: HttpAnswer) -> str:
    media = answered.headers.get("Content-Type", "")
    return media if isinstance(media, str) else ""


def _collected(answered: HttpAnswer, *, pretty: bool) -> Iterator[Chunk] | None:
    """The parts of a list in JSON or YAML; None for any other answer."""
    if answered.text is not None or answered.packed is not None:
        return None
    if _media(answered).startswith("application/yaml"):
        return _yaml_list(answered)
    if answered.listing is not None and not pretty:
        return _listed(answered.listing)
    found = answered.rendering
    if found is not None:
        if pretty:
            return _indented_collection(found.head, found.key, found.items())
        items = found.items()
        return _collection(found.head, found.key, _texts(items, whole=answered.whole_numbers))
    tree = answered.tree
    for key in _MANY:
        if isinstance(tree, dict) and isinstance(tree.get(key), list):
            return pieces(tree, key, pretty=pretty, whole=answered.whole_numbers)
    return None


def pieces(
    tree: dict[str, Any], key: str, *, pretty: bool = False, whole: bool = False
) -> Iterator[Chunk]:
    """A tree with a long list under `key`, encoded item by item. `whole`: no number in it has a fraction."""
    rest = {name: value for name, value in tree.items() if name != key}
    if not pretty:
        return _collection(rest, key, _texts(iter(tree[key]), whole=whole))
    return _indented_collection(rest, key, tree[key])


def _texts(items: Iterator[Any], *, whole: bool) -> Iterator[bytes]:
    """Trees as JSON: one by one, or some at once with commas between them."""
    if not whole:
        yield from map(compact, items)
        return
    while some := list(islice(items, GROUP)):
        yield joined(some)


def _yaml_list(answered: HttpAnswer) -> Iterator[Chunk] | None:
    """The parts of a list in YAML; None for anything else, and for an empty one."""
    listing = answered.listing
    if listing is None or not listing.items:
        return None
    trees = (obj.tree if listing.typed else untyped(obj.tree) for obj in listing.items)
    return _yaml_parts(listing.head, trees)


def _yaml_parts(head: dict[str, Any], items: Iterable[Any]) -> Iterator[Chunk]:
    for name in sorted([*head, "items"]):
        if name != "items":
            yield _yaml({name: head[name]})
            continue
        yield b"items:\n"
        for item in items:
            yield _yaml([item])


def _collection(head: dict[str, Any], key: str, items: Iterable[Chunk]) -> Iterator[Chunk]:
    start = compact(head)[:-1]
    yield start + (b"," if len(start) > 1 else b"") + b'"%s":[' % key.encode()
    first = True
    for item in items:
        if not first:
            yield b","
        first = False
        yield item
    yield b"]}\n"


def _indented_collection(head: dict[str, Any], key: str, items: Iterable[Any]) -> Iterator[Chunk]:
    start = _indented(head).removesuffix(b"}").rstrip(b"\n")
    yield start + (b",\n" if len(start) > 1 else b"\n") + b'  "%s": [' % key.encode()
    first = True
    for item in items:
        yield b"\n    " if first else b",\n    "
        first = False
        yield _indented(item, 2)
    yield b"]\n}" if first else b"\n  ]\n}"


# -- stored objects ------------------------------------------------------------------------------


class _Shared:
    """The bytes of a large object, kept while a connection sends them."""

    __slots__ = ("__weakref__", "data", "obj")

    def __init__(self, obj: Object, data: bytes) -> None:
        self.obj = obj  # so that its id stays its own
        self.data = data


_under_way: WeakValueDictionary[int, _Shared] = WeakValueDictionary()


def _shared(obj: Object) -> _Shared | bytes:
    """An object as JSON: small ones keep their bytes, those of large ones live as long as they are sent."""
    found = _under_way.get(id(obj))
    if found is not None:
        return found
    data = obj.json
    if len(data) <= KEPT_JSON:
        return data
    found = _under_way[id(obj)] = _Shared(obj, data)
    return found


def _listed(listing: Listing) -> Iterator[Chunk]:
    """A list answer. The stored bytes of each item are used, without what lists leave out."""
    head = compact(listing.head)[:-1]
    yield head + (b"," if len(head) > 1 else b"") + b'"items":['
    opening = b"" if listing.typed else b"{"
    between = b"," + opening
    type_of_all, skip = b"", 0
    comma = b""
    group: list[bytes] = []
    for obj in listing.items:
        data = obj.kept_json
        if data is None or len(data) > KEPT_JSON:
            shared = _shared(obj)
            if not isinstance(shared, bytes):
                if group:
                    yield comma + opening + between.join(group)
                    comma, group = b",", []
                yield comma
                yield from _long(obj, shared.data, typed=listing.typed)
                comma = b","
                continue
            data = shared
        if listing.typed:
            group.append(data)
        elif skip and data.startswith(type_of_all):
            group.append(data[skip:])
        else:
            found = _type_length(obj, data)
            if found < 0:
                group.append(compact(untyped(obj.tree))[1:])
            else:
                type_of_all, skip = data[:found], found
                group.append(data[skip:])
        if len(group) == GROUP:
            yield comma + opening + between.join(group)
            comma, group = b",", []
    if group:
        yield comma + opening + between.join(group)
    yield b"]}\n"


def _long(obj: Object, data: bytes, *, typed: bool) -> Iterator[Chunk]:
    """A long item, not copied."""
    skip = 0 if typed else _type_length(obj, data)
    if skip < 0:
        yield compact(untyped(obj.tree))
        return
    if skip:
        yield b"{"
    yield memoryview(data)[skip:]


def _type_length(obj: Object, data: bytes) -> int:
    """Return the length, in bytes, of the type at the start of an object's JSON; -1 if the type stands elsewhere."""
    version, kind = obj.api_version.encode(), obj.kind.encode()
    for start in (
        b'{"kind":"%s","apiVersion":"%s",' % (kind, version),
        b'{"apiVersion":"%s","kind":"%s",' % (version, kind),
    ):
        if data.startswith(start):
            return len(start)
    return -1


def short_line(event: WatchEvent) -> bytes:
    """The line of an event, b"" if it is a long one."""
    if event.held is None:
        event.held = _shared(event.object)
    return event.line if isinstance(event.held, bytes) else b""


class Late:
    """A line that is made when it is its turn: where very many are sent at once."""

    __slots__ = ("made",)

    def __init__(self, made: Callable[[], bytes]) -> None:
        self.made = made


def event_parts(event: WatchEvent) -> Iterator[Chunk]:
    """One event of a watch as a line of JSON; the bytes of large objects are shared by all watchers."""
    line = short_line(event)
    if line:
        yield line
        return
    shared: _Shared = event.held
    yield b'{"type":"%s","object":' % event.type.encode()
    yield shared.data
    yield b"}\n"


# -- framing -------------------------------------------------------------------------------------


def regrouped(parts: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same bytes in pieces of exactly `PIECE`, the last one shorter. Long parts are not copied."""
    buffer = bytearray()
    for part in parts:
        size = len(part)
        if len(buffer) + size < PIECE:
            buffer += part
            continue
        view = memoryview(part)
        at = PIECE - len(buffer)
        buffer += view[:at]
        yield buffer
        buffer = bytearray()
        while size - at >= PIECE:
            yield view[at : at + PIECE]
            at += PIECE
        buffer += view[at:]
        del view, part
    if buffer:
        yield buffer


def compressed(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same bytes as a gzip stream: something for every chunk, though it may be nothing yet."""
    packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()


def watch_line(tree: dict[str, Any], media_type: str) -> bytes:
    """One event of a watch: a line of JSON, a document of YAML or CBOR, a frame of protobuf. Raises Unwritable."""
    if media_type == cbor.MEDIA_TYPE:
        return cbor.event_item(tree["type"], tree["object"])
    if media_type == MEDIA_TYPE:
        return event_frame(tree["type"], tree["object"])
    if media_type == "application/yaml":
        return b"---\n" + _yaml(tree)
    return compact(tree) + b"\n"
