"""What is done to good requests: trees with parts replaced, texts with bytes changed, and how trees are written."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import yaml

from controlplane.apiserver.schema.protobuf import writing

Json = Any
RAW = "\x02"
"""A text that begins with this is written as it stands behind it, without quotes."""
VALUES: tuple[Json, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    2**31,
    2**63,
    -(2**63) - 1,
    10**40,
    1.5,
    1e300,
    -0.0,
    "",
    "a",
    "a" * 300,
    "a" * 5000,
    "é",
    "\ud800",
    "x\udfffy",
    "\x00",
    "\u2028",
    "😀",
    "..",
    "/",
    "%",
    "a/b/c",
    "-1",
    "1e3",
    "25%",
    "0.1m",
    "1e400",
    "2030-01-01T00:00:00Z",
    "YQ==",
    "{}",
    "null",
    "~",
    "delete",
    "$patch",
    "default",
    "kubernetes",
    "v1",
    "Pod",
    "@rv@",
    "@old@",
    "@uid@",
    "*",
    "a.b.io/c",
    [],
    {},
    [[]],
    [{}],
    [None],
    {"": ""},
    {"a": {}},
    {"a": None},
    {"$patch": "replace"},
    {"$patch": "delete"},
    {"$retainKeys": ["a"]},
    {"name": "a"},
    ["a", "a"],
    [{"name": "a"}] * 2,
    RAW + "NaN",
    RAW + "Infinity",
    RAW + "-Infinity",
    RAW + "1e400",
    RAW + "-0",
    RAW + "1.0",
    RAW + "01",
    RAW + "1E5",
    RAW + "9" * 400,
    RAW + "0.1e-400",
    RAW + "tru",
    RAW + '"\\ud800"',
    RAW + '"\\u0000"',
    RAW + '{"a":1,"a":2}',
    RAW + "[1,]",
    RAW + '"\\x"',
    RAW + "1e1000000000",
    RAW + '"\t"',
)
KEYS = (
    "",
    "name",
    "namespace",
    "metadata",
    "spec",
    "status",
    "kind",
    "apiVersion",
    "labels",
    "$patch",
    "x",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "$retainKeys",
    "KIND",
    "é",
    "a" * 300,
    "\ud800",
    "f:a",
    "uid",
    "resourceVersion",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "items",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
    "creationTimestamp",
)


def places(tree: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a tree, the tree itself first."""
    found = [path]
    if isinstance(tree, dict):
        for key, each in tree.items():
            found += places(each, (*path, key))
    elif isinstance(tree, list):
        for at, each in enumerate(tree):
            found += places(each, (*path, at))
    return found


def at(tree: Json, path: tuple[Any, ...]) -> Json:
    """The part of a tree at a path."""
    for key in path:
        tree = tree[key]
    return tree


def spoilt(draw: Random, tree: Json, other: Json = None) -> Json:
    """A copy of a tree with one part changed; `other` is where parts may come from."""
    tree = json.loads(json.dumps(tree))
    found = places(tree)
    path = draw.choice(found)
    if not path:
        path = draw.choice(found)
    if not path:
        return draw.choice(VALUES) if draw.random() < 0.3 else tree
    holder, key = at(tree, path[:-1]), path[-1]
    what = draw.randrange(12)
    if what <= 3:
        holder[key] = draw.choice(VALUES)
    elif what == 4:
        del holder[key]
    elif what == 5 and isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), holder[key])
    elif what == 6 and isinstance(holder, dict):
        holder[draw.choice((key.upper(), key.capitalize(), key + "x", *KEYS))] = holder.pop(key)
    elif what == 7 and isinstance(holder, dict):
        holder[draw.choice(KEYS)] = draw.choice(VALUES)
    elif what == 8:
        holder[key] = draw.choice(([holder[key]], {"a": holder[key]}, str(holder[key])))
    elif what == 9:
        holder[key] = nested(draw.choice((3, 30, 99, 300, 600)), draw.choice((None, "a")))
    elif what == 10 and other is not None:
        holder[key] = at(other, draw.choice(places(other)))
    else:
        holder[key] = _near(draw, holder[key])
    return tree


def _near(draw: Random, value: Json) -> Json:
    """Something much like a value."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return draw.choice((value + 1, value - 1, -value, value * 2, str(value), value + 0.5))
    if isinstance(value, str):
        where = draw.randrange(len(value) + 1)
        more = draw.choice(("", "x", "X", "-", ".", "/", " ", "\n", "é", "0", "%", "*", "\ud800"))
        return value[:where] + more + value[where + draw.randrange(3) :]
    if isinstance(value, list):
        return value[::-1] if draw.random() < 0.5 else value * 2
    return dict(reversed(value.items()))


def nested(levels: int, key: str | None) -> Json:
    """Lists in lists, or maps in maps under a key."""
    found: Json = 1
    for _ in range(levels):
        found = [found] if key is None else {key: found}
    return found


def operations(draw: Random, tree: Json) -> Json:
    """A JSON patch, mostly with paths that exist."""
    pointers = [
        "/" + "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in path)
        for path in places(tree)
        if path
    ]
    pointers += [
        "",
        "x",
        "/-",
        "/metadata/labels/a",
        "/metadata/labels",
        "/spec/x",
        "/~2",
        "/spec/01",
    ]
    made: list[Json] = []
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
        step: Json = {
            "op": draw.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": draw.choice(pointers),
        }
        if draw.random() < 0.8:
            step["value"] = draw.choice(VALUES)
        if step["op"] in ("move", "copy") or draw.random() < 0.1:
            step["from"] = draw.choice(pointers)
        made.append(step)
    return made if draw.random() < 0.95 else spoilt(draw, made)


# -- writing -------------------------------------------------------------------------------------


def as_json(tree: Json, *, plain: bool = True) -> bytes:
    """JSON as clients write it; `plain` escapes what is not ASCII."""
    text = json.dumps(tree, ensure_ascii=plain, separators=(",", ":"))
    mark = json.dumps(RAW)[1:-1]
    while (start := text.find(f'"{mark}')) >= 0:
        raw, length = json.decoder.scanstring(text, start + 1, False)  # type: ignore[attr-defined]
        text = text[:start] + raw[len(RAW) :] + text[length:]
    return text.encode("utf-8", "surrogatepass")


def as_yaml(draw: Random, tree: Json) -> bytes:
    """YAML in blocks, or JSON, which is YAML as well."""
    if draw.random() < 0.3:
        return as_json(tree)
    try:
        text = yaml.dump(
            tree,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=draw.random() < 0.5,
            default_flow_style=draw.choice((True, False, None)),
        )
        raw = text.encode()
    except (ValueError, yaml.YAMLError):
        return as_json(tree)
    what = draw.randrange(30)
    if what < len(_YAML):
        lines = raw.split(b"\n")
        lines.insert(draw.randrange(len(lines)), draw.choice(_YAML))
        return b"\n".join(lines)
    return raw


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    pass


_YAML = (
    b"a: &a 1",
    b"b: *a",
    b"<<: *a",
    b"<<: {a: 1}",
    b"---",
    b"...",
    b"%YAML 1.1",
    b"\tx: 1",
    b"- a",
    b"? a",
    b"x: !!binary YQ==",
    b"x: !!int 'a'",
    b"y: yes",
    b"x: 0o17",
    b"x: 1_000",
    b"x: .inf",
    b"x: |",
    b"#",
)


def as_protobuf(tree: Json) -> bytes | None:
    """Protobuf, None where a tree cannot be written so."""
    try:
        return writing.encoded(tree)
    except Exception:  # a spoilt tree: our writer is for good ones
        return None


def as_cbor(tree: Json) -> bytes:
    """CBOR, which is not spoken."""
    return b"\xd9\xd9\xf7" + _cbor(tree)


def _cbor(tree: Json) -> bytes:
    if tree is None or isinstance(tree, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[tree]
    if isinstance(tree, int) and 0 <= tree < 1 << 63:
        return b"\x1b" + struct.pack(">Q", tree)
    if isinstance(tree, int | float):
        return b"\xfb" + struct.pack(">d", float(min(tree, 1e300)))
    if isinstance(tree, str):
        raw = tree.encode("utf-8", "replace")
        return b"\x7a" + struct.pack(">I", len(raw)) + raw
    if isinstance(tree, list):
        return b"\x9a" + struct.pack(">I", len(tree)) + b"".join(map(_cbor, tree))
    pairs = b"".join(_cbor(key) + _cbor(each) for key, each in tree.items())
    return b"\xba" + struct.pack(">I", len(tree)) + pairs


def broken(draw: Random, raw: bytes) -> bytes:
    """Bytes with some of them changed."""
    what = draw.randrange(7)
    if not raw or what == 0:
        return bytes(draw.randrange(256) for _ in range(draw.randrange(60)))
    where = draw.randrange(len(raw))
    if what == 1:
        return raw[:where]
    if what == 2:
        return raw[:where] + bytes([raw[where] ^ 1 << draw.randrange(8)]) + raw[where + 1 :]
    if what == 3:
        return raw[:where] + raw[where + draw.randrange(1, 9) :]
    if what == 4:
        return raw[:where] + draw.choice(_BITS) + raw[where:]
    if what == 5:
        return raw + draw.choice(_BITS)
    end = min(len(raw), where + draw.randrange(1, 40))
    return raw[:end] + raw[where:end] + raw[end:]


_BITS = (
    b"\xff",
    b"\x00",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xef\xbb\xbf",
    b"{",
    b"}",
    b"[",
    b'"',
    b",",
    b":",
    b"\\",
    b"null",
    b" ",
    b"\n",
    b"\x80" * 12,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"{}",
    b"1",
    b"\x12\x00",
    b"k8s\x00",
    b"---\n",
    b"\xf4\x90\x80\x80",
    b"\x7f",
    b"\\ud800",
    b"\x1f\x8b",
)
