"""Configuration documents as text: YAML or JSON, with the errors of upstream's decoder."""

from __future__ import annotations

import json
from typing import Any, Final

import yaml

from controlplane.api.depth import EXCEEDED, TooDeep, checked
from controlplane.api.go_structs import DecodeError
from controlplane.api.yaml_text import check_aliases, guard

Json = Any


class _Loader(yaml.SafeLoader):
    """YAML 1.1 without timestamps, noting keys that are given twice."""

    duplicates: list[str]


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in out:
            line = key_node.start_mark.line + 1
            loader.duplicates.append(f'  line {line}: key "{key}" already set in map')
        out[key] = loader.construct_object(value_node, deep=True)
    return out


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def parse(text: str) -> tuple[dict[str, Json], str]:
    """(the document, a strict error about duplicate keys or ""). Raises DecodeError."""
    if text.lstrip().startswith("{"):
        document, duplicate = _parse_json(text), ""
    else:
        document, duplicate = _parse_yaml(text)
    if not isinstance(document, dict) or not document.get("kind"):
        raise DecodeError(f"Object 'Kind' is missing in '{_beginning(text)}'")
    if not document.get("apiVersion"):
        raise DecodeError(f"Object 'apiVersion' is missing in '{_beginning(text)}'")
    return document, duplicate


def _parse_yaml(text: str) -> tuple[Json, str]:
    loader = _Loader(text)
    loader.duplicates = []
    try:
        guard(text)
        node = loader.get_single_node()
        check_aliases(node, text)
        document = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as broken:
        where, what = "", str(broken)
        if isinstance(broken, yaml.MarkedYAMLError):
            where = "" if broken.problem_mark is None else f"line {broken.problem_mark.line + 1}: "
            what = broken.problem or what
        message = f"yaml: {where}{what}"
        raise DecodeError(f"couldn't get version/kind; json parse error: {message}") from broken
    except (ValueError, LookupError, TypeError) as broken:  # a scalar that is not what its tag says
        raise DecodeError(f"couldn't get version/kind; json parse error: yaml: {broken}") from None
    finally:
        loader.dispose()
    duplicate = ""
    if loader.duplicates:
        duplicate = "yaml: unmarshal errors:\n" + "\n".join(loader.duplicates)
    return document, duplicate


def _parse_json(text: str) -> Json:
    try:
        return checked(json.loads(text), text)
    except (TooDeep, RecursionError):
        raise DecodeError(f"couldn't get version/kind; json parse error: {EXCEEDED}") from None
    except json.JSONDecodeError as broken:
        where = _json_problem(text, broken)
        raise DecodeError(f"couldn't get version/kind; json parse error: {where}") from broken


def _json_problem(text: str, broken: json.JSONDecodeError) -> str:
    if broken.pos >= len(text):
        return "unexpected end of JSON input"
    char = text[broken.pos]
    shown = f"'{char}'" if char != "'" else r"'\''"
    places = {
        "Expecting property name enclosed in double quotes": (
            "looking for beginning of object key string"
        ),
        "Expecting value": "looking for beginning of value",
        "Expecting ':' delimiter": "after object key",
        "Expecting ',' delimiter": "after object key:value pair",
        "Extra data": "after top-level value",
    }
    place = places.get(broken.msg, broken.msg)
    return f"invalid character {shown} {place}"


def _beginning(text: str) -> str:
    """A text as it is, or on one line the beginning of one that is long."""
    return text if len(text) <= _LONG else f"{' '.join(text[:_LONG].split())}..."


_LONG: Final = 400
