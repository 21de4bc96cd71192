"""Limits on YAML text, checked before it is composed.

libyaml's composer calls itself for each level and ends the process when the C stack is full; aliases
and merge keys can stand for more than any memory holds; directives are compared with each other. All
that is seen in the text, in its events and in the composed nodes, before a value is built. Ordinary
texts are passed after a few searches for bytes. Upstream: sigs.k8s.io/yaml, goyaml.v2 (scannerc.go,
decode.go).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import yaml

from controlplane.api.depth import DEPTH, EXCEEDED

__all__ = [
    "Excessive", "Recursive", "TooDeepText", "TooMany", "check_aliases", "dumper", "guard", "load",
]  # fmt: skip

_FEW: Final = 100
_AS_SPACES: Final = bytes.maketrans(b"\t-?:", b"    ")
_RUN: Final = b" " * _FEW
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")
_DIRECTIVE: Final = re.compile(rb"^%", re.MULTILINE)
_DIRECTIVES: Final = 64
_ALIAS_RANGE: Final = (400_000, 4_000_000)
_ALIAS_SHARE: Final = (0.99, 0.10)
_Events: Any = getattr(yaml, "CLoader", yaml.Loader)
_Fast: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LEVELS: Final = {
    yaml.SequenceStartEvent: 1,
    yaml.MappingStartEvent: 1,
    yaml.SequenceEndEvent: -1,
    yaml.MappingEndEvent: -1,
}
_BROKEN: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""The exceptions of PyYAML's constructors for a scalar that does not match its tag."""


class Excessive(yaml.YAMLError):
    """A text that stands for more than it may: levels, aliases, directives. `line` is from 1, or 0."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem = problem
        self.line = line


class TooDeepText(Excessive):
    """A text that nests more deeply than `DEPTH`."""

    def __init__(self, line: int) -> None:
        super().__init__(f"{EXCEEDED} of {DEPTH}", line)


class Recursive(Excessive):
    """An alias inside the node that it names."""


class TooMany(Excessive):
    """A text with more values than its reader accepts."""


def guard(text: str | bytes, *, nodes: int = 0) -> None:
    """Refuse a text that must not be composed. Raises Excessive; TooMany beyond `nodes` values, if limited.

    Text that is not YAML passes: composing it reports the error.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if raw.startswith(_WIDE):
        raw = raw.decode("utf-16", "replace").encode("utf-8", "surrogatepass")
    if raw.count(b"%") > _DIRECTIVES and len(_DIRECTIVE.findall(raw)) > _DIRECTIVES:
        raise Excessive("found too many directives")
    # A level of block style takes a column, or shares one with the mapping that it stands in.
    nested = raw.count(b"[") + raw.count(b"{") > _FEW or _RUN in raw.translate(_AS_SPACES)
    many = nodes and raw.count(b"\n") + raw.count(b",") + raw.count(b":") > nodes
    if nested or many:
        _walk(raw, nodes)


def _walk(raw: bytes, nodes: int) -> None:
    """Count the values, aliases and depth of a text, event by event."""
    parser = _Events(raw)
    depth = count = 0
    try:
        while parser.check_event():
            event = parser.get_event()
            count += 1
            depth += _LEVELS.get(type(event), 0)
            if depth > DEPTH:
                raise TooDeepText(event.start_mark.line + 1)
            if nodes and count > nodes:
                raise TooMany(f"more than {nodes} values", event.start_mark.line + 1)
    except Excessive:
        raise
    except yaml.YAMLError as error:
        if isinstance(error, yaml.MarkedYAMLError) and error.problem == _TOO_DEEP_FOR_PARSER:
            line = 0 if error.problem_mark is None else error.problem_mark.line
            raise TooDeepText(line + 1) from None
        return
    finally:
        parser.dispose()


_TOO_DEEP_FOR_PARSER = "exceeded maximum nesting depth"
"""The error of libyaml from 0.2.6 on, whose scanner reads ahead and meets its own limit before ours."""


def check_aliases(root: yaml.Node | None, text: str | bytes) -> None:
    """Refuse a document composed of `text` whose aliases and merge keys stand for too much. Excessive.

    Upstream: goyaml.v2 decode.go, allowedAliasRatio, over the whole document at once.
    """
    if root is None or isinstance(root, yaml.ScalarNode):
        return
    if not (b"*" in text if isinstance(text, bytes) else "*" in text):
        return
    known: dict[int, tuple[int, int]] = {}
    under_way: dict[int, None] = {id(root): None}
    stack = [(root, iter(_parts(root)))]
    while stack:
        node, parts = stack[-1]
        for part in parts:
            if isinstance(part, yaml.ScalarNode):
                known.setdefault(id(part), (1, 0))
            elif id(part) in under_way:
                raise Recursive("anchor value contains itself", part.start_mark.line + 1)
            elif id(part) not in known:
                under_way[id(part)] = None
                stack.append((part, iter(_parts(part))))
                break
        else:
            stack.pop()
            del under_way[id(node)]
            inner = [known[id(part)] for part in _parts(node)]
            height = 1 + max((each[1] for each in inner), default=0)
            if height > DEPTH:
                raise TooDeepText(node.start_mark.line + 1)
            known[id(node)] = 1 + sum(each[0] for each in inner), height
    total = known[id(root)][0]
    aliased = total - len(known)
    if aliased > 100 and total > 1000 and aliased / total > _allowed(total):
        raise Excessive("document contains excessive aliasing")


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value  # type: ignore[no-any-return]


def _allowed(total: int) -> float:
    """Return the share of `total` values that may come from aliases."""
    low, high = _ALIAS_RANGE
    most, least = _ALIAS_SHARE
    if total <= low:
        return most
    if total >= high:
        return least
    return most - (most - least) * (total - low) / (high - low)


def check_keys(node: yaml.Node | None) -> None:
    """Refuse a map that has a key twice, as Go's strict decoders do. Raises YAMLError."""
    waiting = [] if node is None else [node]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
            continue
        known: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in known and key.value != "<<":
                    line = key.start_mark.line + 1
                    raise yaml.YAMLError(f"line {line}: key {key.value!r} already set in map")
                known.add(key.value)
            waiting.append(value)


def load(text: str | bytes, loader: Any = None, *, unique: bool = False) -> Any:
    """The value of a text of one document, as `yaml.safe_load`. Every error is a YAMLError.

    Keys of a map may be repeated, the last one counts, unless they are to be `unique`.
    """
    guard(text)
    reader = (loader or _Fast)(text)
    try:
        node = reader.get_single_node()
        check_aliases(node, text)
        if unique:
            check_keys(node)
        return None if node is None else reader.construct_document(node)
    except _BROKEN as error:
        raise yaml.YAMLError(f"cannot be read: {error}") from error
    finally:
        reader.dispose()


_EXPONENT: Final = re.compile(r"\A[-+]?[0-9]+[eE][-+]?[0-9]+\Z")
_PLAIN: Final = {
    "bool": (re.compile(r"\A[yYnN]\Z"), "yYnN"),
    "float": (_EXPONENT, "-+0123456789"),
    "int": (re.compile(r"\A[-+]?0o[0-7]+\Z"), "-+0"),
}
"""Texts that Go's reader, and not PyYAML, takes for another type than text, with their first characters."""


@cache
def dumper() -> Any:
    """Return the class that writes YAML, for `yaml.dump`, so that kubectl reads the same again.

    Texts that Go reads as a number or a bool are quoted (goyaml.v2, resolve.go: a pod may be called `y`), and what two
    parts of a tree share stands there twice, without aliases.
    """
    fastest: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    made: Any = type("Dumper", (fastest,), {"ignore_aliases": lambda *_: True})
    for kind, (form, first) in _PLAIN.items():
        made.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", form, list(first))
    return made
