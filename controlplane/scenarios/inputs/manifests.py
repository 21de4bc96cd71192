"""Manifests: YAML or JSON files to object trees that know where they stand.

Scalars mean what kubectl takes them for, which is YAML 1.1 without base 60: plain `yes`, `no`,
`on`, `off`, `y` and `n` are booleans, `0777` is octal, `1_000` a number, dates stay text, a number
without a fraction is an integer, and keys that are numbers or booleans become text
(sigs.k8s.io/yaml on go-yaml v2). Unlike kubectl without validation, a key given twice is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

from controlplane.api.tree import Tree
from controlplane.api.yaml_text import Excessive, Recursive, TooDeepText, check_aliases, guard
from controlplane.errors import UsageError
from controlplane.scenarios.inputs.simulator_files import (
    CONFIG,
    IN_ORDER,
    imported_object,
    is_export,
)

SUFFIXES: Final = (".yaml", ".yml", ".json")
"""The files read from a folder and its subfolders."""
STANDARD_INPUT: Final = "-"
"""Names standard input in place of a file."""
_BUILT: Final = {
    **dict.fromkeys(("kustomization.yaml", "kustomization.yml", "Kustomization"), "kustomization"),
    "Chart.yaml": "Helm chart",
}
_BUILDERS: Final = {"kustomization": "kubectl kustomize", "Helm chart": "helm template"}

_RESOURCE_PATCH: Final = ("action.kwok.x-k8s.io/v1alpha1", "ResourcePatch")
_PLAIN: Final = "plain"
_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE: Final = frozenset(
    ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]
)
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_RADIX: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))"
)
_LARGEST_PLAIN: Final = 1e21
_MOST_DIGITS: Final = 4000
"""Python reads no number of more; Go's YAML leaves what no number holds a text."""
_STEP: Final = re.compile(r"[^.\[\]]+|\[[^\[\]]*\]")


class ManifestError(UsageError):
    """A manifest that cannot be used: `file:line: object: field: message`."""

    def __init__(
        self, message: str, *, file: str, line: int = 0, obj: str = "", field: str = ""
    ) -> None:
        place = f"{file}:{line}" if line else file
        super().__init__(": ".join(part for part in (place, obj, field, message) if part))
        self.message = message
        self.file = file
        self.line = line
        self.object = obj
        self.field = field


@attrs.frozen(eq=False)
class Manifest:
    """One object of a file; `line` is where it begins."""

    tree: Tree
    file: str
    line: int
    _node: yaml.Node | None = attrs.field(default=None, repr=False)
    exported: bool = False
    """The object stands in an export of kube-scheduler-simulator."""

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return str(self.tree["kind"])

    @property
    def name(self) -> str:
        """`Kind namespace/name`, as messages name the object."""
        return describe(self.tree)

    def line_of(self, field: str) -> int:
        """The line of a field such as `spec.containers[0].image`, or of what encloses it."""
        node = self._node
        line = self.line
        for step in _STEP.findall(field):
            node = _child(node, step.strip("[]\"'"))
            if node is None:
                break
            line = node.start_mark.line + 1
        return line

    def error(self, field: str, message: str) -> ManifestError:
        """An error about a field of this object."""
        return ManifestError(
            message, file=self.file, line=self.line_of(field), obj=self.name, field=field
        )


def describe(tree: Tree) -> str:
    """`Kind namespace/name` of a tree, as far as it says."""
    meta = tree.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name") or meta.get("generateName") or ""
    if meta.get("namespace"):
        name = f"{meta['namespace']}/{name}"
    return f"{tree.get('kind') or 'object'} {name}".strip()


def _child(node: yaml.Node | None, step: str) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode):
        items: list[yaml.Node] = node.value
        return items[int(step)] if step.isdecimal() and int(step) < len(items) else None
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                found: yaml.Node = value
                return found
    return None


def load(
    paths: Iterable[str | Path], configurations: list[Manifest] | None = None
) -> list[Manifest]:
    """All objects of some files and folders, in order; lists are taken apart.

    Scheduler configurations in exports of kube-scheduler-simulator are added to `configurations`.
    """
    found: list[Manifest] = []
    for path in paths:
        for file in manifest_files(Path(path)):
            found += load_file(file, configurations)
    return found


def manifest_files(path: Path) -> list[Path]:
    """The file itself, or the manifests in a folder and all below it, by name as `kubectl apply -R`.

    Folders whose names begin with a dot are left out. Raises ManifestError for what has to be built first.
    """
    if not path.is_dir():
        return [path]
    files = list(_below(path))
    if not files:
        raise ManifestError(f"no manifests ({', '.join(SUFFIXES)}) in this folder", file=str(path))
    return files


def _below(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ManifestError(_reason(error), file=str(folder)) from None
    for entry in entries:
        if entry.name in _BUILT:
            raise _to_be_built(_BUILT[entry.name], str(folder), str(folder))
    for entry in entries:
        if entry.is_dir():
            if not entry.name.startswith(".") and not entry.is_symlink():
                yield from _below(entry)
        elif entry.suffix in SUFFIXES:
            yield entry


def _to_be_built(what: str, place: str, folder: str, line: int = 0) -> ManifestError:
    text = f"a {what} has to be built first: `{_BUILDERS[what]} {folder}`, whose output can be given as -"
    return ManifestError(text, file=place, line=line)


_taken: list[tuple[object, str]] = []


def standard_input() -> str:
    """All that stands in standard input; read once, and remembered. Raises ManifestError."""
    if not _taken or _taken[0][0] is not sys.stdin:
        try:
            _taken[:] = [(sys.stdin, sys.stdin.buffer.read().decode("utf-8-sig"))]
        except UnicodeDecodeError as error:
            raise ManifestError(f"not UTF-8 text: {error.reason}", file=STANDARD_INPUT) from None
    return _taken[0][1]


def load_file(path: Path, configurations: list[Manifest] | None = None) -> list[Manifest]:
    """The objects of one file, or of standard input; see `load`."""
    if str(path) == STANDARD_INPUT:
        return load_text(standard_input(), STANDARD_INPUT, configurations)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ManifestError(_reason(error), file=str(path)) from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 text: {error.reason}", file=str(path)) from None
    return load_text(text, str(path), configurations)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def load_text(text: str, file: str, configurations: list[Manifest] | None = None) -> list[Manifest]:
    """The objects of a text; `file` names it in messages. See `load`."""
    found: list[Manifest] = []
    for tree, node, line in _documents(text, file):
        if tree is None:
            continue
        found += _flatten(tree, node, file, line)
        configuration = _configuration(tree, node, file, line)
        if configuration is not None and configurations is not None:
            configurations.append(configuration)
    if not found:
        raise ManifestError("no objects in this file", file=file, line=1)
    return found


def document(text: str, file: str) -> Manifest:
    """The one mapping in a text, of whatever kind. Raises ManifestError."""
    found = [Manifest(tree, file, line, node) for tree, node, line in _documents(text, file)]
    found = [each for each in found if each.tree is not None]
    if len(found) != 1 or not isinstance(found[0].tree, dict):
        raise ManifestError("expected one mapping", file=file)
    return found[0]


def _flatten(tree: Any, node: yaml.Node | None, file: str, line: int) -> Iterator[Manifest]:
    """The object, or the items of a list kind."""
    if not isinstance(tree, dict):
        raise ManifestError(f"expected an object, found {_name(tree)}", file=file, line=line)
    if is_export(tree):
        yield from _exported(tree, node, file, line)
        return
    kind, items = tree.get("kind"), tree.get("items")
    if is_patch(tree):
        yield Manifest(tree, file, line, node)
        return
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield _checked(Manifest(tree, file, line, node))
        return
    entries = _child(node, "items")
    for i, item in enumerate(items):
        at = _child(entries, str(i))
        where = at.start_mark.line + 1 if at is not None else line
        if isinstance(item, dict) and kind != "List":
            item = {"apiVersion": tree.get("apiVersion"), "kind": kind[:-4]} | item
        yield from _flatten(item, at, file, where)


def is_patch(tree: Tree) -> bool:
    """Return whether a document is a change of a recording of kwokctl, which has no metadata."""
    return (tree.get("apiVersion"), tree.get("kind")) == _RESOURCE_PATCH


def _exported(tree: Any, node: yaml.Node | None, file: str, line: int) -> Iterator[Manifest]:
    """The objects of an export of kube-scheduler-simulator in the order of an import."""
    for field, kind in IN_ORDER:
        items = tree.get(field) or ()
        if not isinstance(items, list | tuple):
            raise ManifestError(f"expected a list, found {_name(items)}", file=file, field=field)
        entries = _child(node, field)
        for i, item in enumerate(items):
            at = _child(entries, str(i))
            where = at.start_mark.line + 1 if at is not None else line
            if not isinstance(item, dict):
                text = f"expected an object, found {_name(item)}"
                raise ManifestError(text, file=file, line=where, field=f"{field}[{i}]")
            found = imported_object(item, kind)
            if found is not None:
                yield _checked(Manifest(found, file, where, at, exported=True))


def _configuration(tree: Any, node: yaml.Node | None, file: str, line: int) -> Manifest | None:
    """The scheduler's configuration in an export, None for any other document and where there is none."""
    if not is_export(tree) or tree[CONFIG] is None:
        return None
    if not isinstance(tree[CONFIG], dict):
        text = f"expected an object, found {_name(tree[CONFIG])}"
        raise ManifestError(text, file=file, line=line, field=CONFIG)
    at = _child(node, CONFIG)
    where = at.start_mark.line + 1 if at is not None else line
    return Manifest(tree[CONFIG], file, where, at)


def _checked(manifest: Manifest) -> Manifest:
    tree = manifest.tree
    if str(tree.get("apiVersion")).startswith("kustomize.config.k8s.io/"):
        folder = str(Path(manifest.file).parent)
        raise _to_be_built("kustomization", manifest.file, folder, manifest.line)
    for field in ("apiVersion", "kind"):
        value = tree.get(field)
        if value is None or value == "":
            raise manifest.error(field, "required")
        if not isinstance(value, str):
            raise manifest.error(field, f"expected text, found {_name(value)}")
    meta = tree.get("metadata")
    if meta is not None and not isinstance(meta, dict):
        raise manifest.error("metadata", f"expected an object, found {_name(meta)}")
    meta = meta or {}
    for field in ("name", "generateName", "namespace"):
        value = meta.get(field)
        if value is not None and not isinstance(value, str):
            raise manifest.error(f"metadata.{field}", f"expected text, found {_name(value)}")
    if not meta.get("name") and not meta.get("generateName"):
        raise manifest.error("metadata.name", "required")
    return manifest


def _name(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return f"{'text' if isinstance(value, str) else 'the number'} {value!r}"


def _documents(text: str, file: str) -> Iterator[tuple[Any, yaml.Node | None, int]]:
    """(tree, node, line) of every document; JSON is tried first when it looks like JSON."""
    if text.lstrip()[:1] == "{":
        try:
            documents = list(_json_documents(text, file))
        except json.JSONDecodeError as error:
            if Path(file).suffix == ".json":
                raise ManifestError(
                    f"broken JSON: {error.msg[:1].lower()}{error.msg[1:]}",
                    file=file,
                    line=error.lineno,
                ) from None
        except RecursionError:
            raise ManifestError("nested too deeply", file=file, line=1) from None
        else:
            yield from documents
            return
    try:
        guard(text)
        for node in yaml.compose_all(text, Loader=_Loader):  # type: ignore[arg-type]
            if node is not None:
                check_aliases(node, text)
                yield _Converter(file).convert(node), node, node.start_mark.line + 1
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = " ".join((error.problem or "cannot be parsed").split())
        line = mark.line + 1 if mark else 1
        raise ManifestError(f"broken YAML: {detail}", file=file, line=line) from None
    except TooDeepText:
        raise ManifestError("nested too deeply", file=file, line=1) from None
    except Excessive as error:
        told = (
            "an alias inside the node that it names"
            if isinstance(error, Recursive)
            else f"broken YAML: {error.problem}"
        )
        raise ManifestError(told, file=file, line=error.line or 1) from None
    except yaml.YAMLError as error:
        detail = str(error).splitlines()[0]
        raise ManifestError(f"broken YAML: {detail}", file=file, line=1) from None
    except RecursionError:
        raise ManifestError("nested too deeply", file=file, line=1) from None


def _json_documents(text: str, file: str) -> Iterator[tuple[Any, yaml.Node | None, int]]:
    def unique(pairs: list[tuple[str, Any]]) -> Tree:
        found = dict(pairs)
        if len(found) != len(pairs):
            times = Counter(key for key, _ in pairs)
            twice = next(key for key, _ in pairs if times[key] > 1)
            raise ManifestError(f"key {json.dumps(twice)} given twice", file=file, line=line)
        return found

    decoder = json.JSONDecoder(object_pairs_hook=unique)
    at = 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if at == len(text):
            return
        line = text.count("\n", 0, at) + 1
        tree, end = decoder.raw_decode(text, at)
        try:
            text_of_node = "\n" * (line - 1) + text[at:end]
            guard(text_of_node)
            node = yaml.compose(text_of_node, Loader=_Loader)  # type: ignore[arg-type]
        except yaml.YAMLError:
            node = None
        yield tree, node, line
        at = end


def values(text: str, file: str) -> list[tuple[Any, int]]:
    """The documents of a text as plain values with their lines, whatever they are."""
    return [(tree, line) for tree, _, line in _documents(text, file)]


class _PlainResolver(yaml.resolver.BaseResolver):
    """Marks plain scalars, so that the converter can tell `yes` from "yes"."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else f"{_TAG}str"
        return f"{_TAG}seq" if kind is yaml.SequenceNode else f"{_TAG}map"


if yaml.__with_libyaml__:
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class _Loader(CParser, _PlainResolver):
        """Composes nodes with libyaml."""

        def __init__(self, stream: str) -> None:
            CParser.__init__(self, stream)
            _PlainResolver.__init__(self)

else:  # pragma: no cover - depends on how PyYAML was built

    class _Loader(  # type: ignore[no-redef]
        yaml.reader.Reader,
        yaml.scanner.Scanner,
        yaml.parser.Parser,
        yaml.composer.Composer,
        _PlainResolver,
    ):
        """Composes nodes without libyaml."""

        def __init__(self, stream: str) -> None:
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)
            _PlainResolver.__init__(self)


class _Converter:
    """Nodes of one document to JSON values; what an alias names again is shared."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._done: dict[int, Any] = {}
        self._open: dict[int, None] = {}

    def _fail(self, message: str, node: yaml.Node) -> ManifestError:
        return ManifestError(message, file=self._file, line=node.start_mark.line + 1)

    def convert(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        key = id(node)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            raise self._fail("an alias inside the node that it names", node)
        self._open[key] = None
        value: Any
        if isinstance(node, yaml.SequenceNode):
            value = [self.convert(item) for item in node.value]
        else:
            value = self._mapping(node)
        del self._open[key]
        self._done[key] = value
        return value

    def _mapping(self, node: yaml.Node) -> Tree:
        own: Tree = {}
        merged: Tree = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                merged = self._merge(value_node) | merged
                continue
            key = self._key(key_node)
            if key in own:
                raise self._fail(f"key {json.dumps(key)} given twice", key_node)
            own[key] = self.convert(value_node)
        return merged | own if merged else own

    def _merge(self, node: yaml.Node) -> Tree:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: Tree = {}
        for source in sources:
            value = self.convert(source)
            if not isinstance(value, dict):
                raise self._fail("map merge requires map or sequence of maps as the value", source)
            found = value | found
        return found

    def _key(self, node: yaml.Node) -> str:
        value = self.convert(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, Hashable) or value is None:
            raise self._fail("a key must be text", node)
        return value if isinstance(value, str) else str(value)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        tag, text = node.tag, node.value
        if tag == f"{_TAG}str":
            return text
        if tag == f"{_TAG}binary":
            try:
                return base64.b64decode(text, validate=False).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise self._fail("!!binary needs base64 of UTF-8 text", node) from None
        if tag != _PLAIN and not tag.startswith(_TAG):
            return text
        value = plain_scalar(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise self._fail(f"{text} cannot be sent as JSON", node)
        if tag not in (_PLAIN, f"{_TAG}timestamp"):
            value = self._tagged(tag.removeprefix(_TAG), value, node)
        return value

    def _tagged(self, tag: str, value: Any, node: yaml.ScalarNode) -> Any:
        actual = (
            "null"
            if value is None
            else {bool: "bool", int: "int", float: "float"}.get(type(value), "str")
        )
        if tag == actual or (tag == "float" and actual == "int"):
            return value
        if tag in ("null", "bool", "int", "float"):
            raise self._fail(f"cannot decode !!{actual} `{node.value}` as a !!{tag}", node)
        return node.value


def plain_scalar(text: str) -> Any:
    """The value of a plain YAML scalar: None, a bool, an int, a float or the text itself."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    first = text[0]
    if first not in "+-.0123456789":
        return text
    if _INFINITE.fullmatch(text):
        return (
            math.nan
            if "n" in text.lower().replace("inf", "")
            else math.copysign(math.inf, -1 if first == "-" else 1)
        )
    plain = text if first == "." else text.replace("_", "")
    match = _RADIX.fullmatch(plain) if first != "." else None
    if match is not None:
        sign, hexadecimal, binary, octal, decimal = match.groups()
        digits, base = next(
            (found, base)
            for found, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10))
            if found is not None
        )
        if base == 10 and len(digits) > _MOST_DIGITS:
            return text
        number = int(digits, base)
        return -number if sign == "-" else number
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        return int(value) if value.is_integer() and abs(value) < _LARGEST_PLAIN else value
    return text
