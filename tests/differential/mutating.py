"""Hostile variations of conversations: of bodies, parameters, headers, paths, and of their order."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from attrs import evolve, frozen

from controlplane.api.flags import flag
from tests.differential import hostile, openapi
from tests.differential.corpus import Conversation, Corpus
from tests.differential.openapi import Schemas

Json = Any
Path = tuple[str | int, ...]

MAX_STEPS: Final = 14


@frozen
class Grammar:
    """The values from which variations draw."""

    corpus: Corpus
    schemas: Schemas


def nodes(value: Json, path: Path = ()) -> list[tuple[Path, Json]]:
    """Every place of a tree with its value, the root first."""
    found: list[tuple[Path, Json]] = [(path, value)]
    if isinstance(value, dict):
        for key, item in value.items():
            found += nodes(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += nodes(item, (*path, index))
    return found


def placed(value: Json, path: Path, new: Json) -> Json:
    """A tree with another value at a place."""
    if not path:
        return new
    head, *rest = path
    if isinstance(value, list):
        return [
            placed(item, tuple(rest), new) if i == head else item for i, item in enumerate(value)
        ]
    return {**value, head: placed(value.get(head), tuple(rest), new)}


def without(value: Json, path: Path) -> Json:
    """A tree without what stands at a place."""
    head, *rest = path
    if isinstance(value, list):
        if not rest:
            return [item for i, item in enumerate(value) if i != head]
        return [without(item, tuple(rest)) if i == head else item for i, item in enumerate(value)]
    if not rest:
        return {key: item for key, item in value.items() if key != head}
    return {key: without(item, tuple(rest)) if key == head else item for key, item in value.items()}


def _place(body: Json, random: Random) -> tuple[Path, Json]:
    """A place of a body: each depth is as likely as the next."""
    path: Path = ()
    value = body
    while isinstance(value, (dict, list)) and value:
        keys = sorted(value, key=str) if isinstance(value, dict) else list(range(len(value)))
        if len(keys) > 1 and not path:
            keys = [key for key in keys if key not in ("apiVersion", "kind")] or keys
        key = random.choice(keys)
        path, value = (*path, key), value[key]
        if random.random() < 0.2:
            break
    return path, value


def _similar(value: Json, key: str, grammar: Grammar, random: Random) -> Json:
    """Another value for a place: of the recordings, hostile of the same type, or of another type."""
    known = grammar.corpus.values.get(key) or ()
    luck = random.random()
    if known and luck < 0.5:
        return random.choice(known)
    if luck > 0.9:
        return random.choice(hostile.OTHERS)
    if isinstance(value, str):
        return random.choice(hostile.STRINGS)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return random.choice(hostile.NUMBERS)
    return random.choice((*hostile.OTHERS, *hostile.STRINGS[:6]))


def _leaf(body: Json, grammar: Grammar, random: Random) -> Json:
    path, value = _place(body, random)
    if not path:
        return body
    key = next((each for each in reversed(path) if isinstance(each, str)), "")
    return placed(body, path, _similar(value, key, grammar, random))


def _field(body: Json, grammar: Grammar, random: Random) -> Json:
    """Add a field that the kind's schema knows at a random depth."""
    schema = grammar.schemas.of_kind(str(body.get("apiVersion")), str(body.get("kind")))
    path: Path = ()
    value = body
    if not schema:
        return _leaf(body, grammar, random)
    schema = grammar.schemas.whole(schema)
    for _ in range(6):
        properties = schema.get("properties") or {}
        steps = [
            key
            for key in sorted(properties)
            if isinstance(value.get(key), (dict, list)) and value[key] and key != "metadata"
        ]
        if not steps or random.random() < 0.25:
            break
        key = random.choice(steps)
        path, value, schema = (*path, key), value[key], grammar.schemas.whole(properties[key])
        if isinstance(value, list):
            at = random.randrange(len(value))
            if not isinstance(value[at], dict):
                return body
            path, value, schema = (
                (*path, at),
                value[at],
                grammar.schemas.whole(schema.get("items") or {}),
            )
    properties = schema.get("properties") or {}
    names = [name for name in sorted(properties) if name not in ("apiVersion", "kind", "metadata")]
    if not names or not isinstance(value, dict):
        return _leaf(body, grammar, random)
    name = random.choice([each for each in names if each not in value] or names)
    known = grammar.corpus.values.get(name)
    if known and random.random() < 0.5:
        return placed(body, (*path, name), random.choice(known))
    return placed(body, (*path, name), openapi.sample(grammar.schemas, properties[name], random))


def _drop(body: Json, _: Grammar, random: Random) -> Json:
    path, _value = _place(body, random)
    return without(body, path) if path else body


def _list(body: Json, grammar: Grammar, random: Random) -> Json:
    lists = [(path, value) for path, value in nodes(body) if isinstance(value, list) and value]
    if not lists:
        return _leaf(body, grammar, random)
    path, value = random.choice(lists)
    key = next((each for each in reversed(path) if isinstance(each, str)), "")
    known = [
        item
        for each in grammar.corpus.values.get(key) or ()
        if isinstance(each, list)
        for item in each
    ]
    new: Json = random.choice(
        (
            [*value, random.choice(value)],
            [*value, *([random.choice(known)] if known else [])],
            [*value, None],
            list(reversed(value)),
            [],
            value[:1],
            [*value, *value],
        )
    )
    return placed(body, path, new)


def _unknown(body: Json, _: Grammar, random: Random) -> Json:
    maps = [path for path, value in nodes(body) if isinstance(value, dict)]
    path = random.choice(maps)
    inner: Json = body
    for key in path:
        inner = inner[key]
    name = random.choice([*hostile.KEYS, *(key.upper() for key in inner)])
    return placed(body, (*path, name), random.choice((1, "a", {}, None, [])))


def _meta(body: Json, _: Grammar, random: Random) -> Json:
    name, value = random.choice(hostile.META)
    metadata = body.get("metadata")
    base = metadata if isinstance(metadata, dict) else {}
    changed = {**base, name: value}
    if name == "generateName":
        changed.pop("name", None)
    return {**body, "metadata": changed}


_BODY: Final[tuple[Callable[[Json, Grammar, Random], Json], ...]] = (
    _leaf,
    _leaf,
    _leaf,
    _field,
    _field,
    _field,
    _drop,
    _list,
    _unknown,
    _meta,
)


def _body(step: Json, grammar: Grammar, random: Random) -> Json:
    """Vary the body of a request."""
    if "bodyText" in step:
        return {**step, "bodyText": _text(step["bodyText"], random)}
    body = step.get("body")
    if step["method"] == "DELETE" and random.random() < 0.6:
        return {**step, "body": random.choice(hostile.DELETE_OPTIONS)}
    media = (step.get("headers") or {}).get("Content-Type", "")
    if media == "application/json-patch+json" and isinstance(body, list):
        if random.random() < 0.6:
            at = random.randint(0, len(body))
            return {**step, "body": [*body[:at], random.choice(hostile.JSON_PATCHES), *body[at:]]}
        return {**step, "body": _leaf(body, grammar, random)} if body else step
    if (
        media == "application/strategic-merge-patch+json"
        and isinstance(body, dict)
        and random.random() < 0.4
    ):
        return {**step, "body": _merged(body, random.choice(hostile.STRATEGIC))}
    if not isinstance(body, dict) or not body:
        return step
    if random.random() < 0.03:
        return {key: value for key, value in step.items() if key != "body"} | {
            "bodyText": random.choice(
                (_text(json.dumps(body), random), random.choice(hostile.TEXTS))
            ),
            "headers": {"Content-Type": "application/json", **(step.get("headers") or {})},
        }
    return {**step, "body": random.choice(_BODY)(body, grammar, random)}


def _merged(a: Json, b: Json) -> Json:
    if not isinstance(a, dict) or not isinstance(b, dict):
        return b
    return {**a, **{key: _merged(a.get(key), value) for key, value in b.items()}}


def _text(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return random.choice(
        (
            text[:at],
            text[:at] + random.choice('{}[]",:\n\t x0-') + text[at:],
            text[:at] + text[at + 1 :],
            text + random.choice(hostile.TEXTS),
        )
    )


def _query(step: Json, _: Grammar, random: Random) -> Json:
    """Add or change a parameter."""
    query = dict(step.get("query") or {})
    pool = hostile.WATCH_QUERIES if step.get("watch") else sorted(hostile.QUERIES)
    if query and random.random() < 0.4:
        name = random.choice(sorted(query))
        if name in ("watch", "timeoutSeconds") and step.get("watch"):
            return step
        if random.random() < 0.3:
            del query[name]
            return {**step, "query": query}
    else:
        name = random.choice(pool)
    query[name] = random.choice(hostile.QUERIES.get(name, ("", "x", "true")))
    return {**step, "query": query}


def _headers(step: Json, _: Grammar, random: Random) -> Json:
    """Ask for, or send, another media type."""
    headers = dict(step.get("headers") or {})
    if "watch" in step or (random.random() < 0.6 or step["method"] in ("GET", "DELETE")):
        headers["Accept"] = random.choice(
            hostile.ACCEPTS[:1] if step.get("watch") else hostile.ACCEPTS
        )
    elif step["method"] == "PATCH" and random.random() < 0.8:
        headers["Content-Type"] = random.choice(hostile.PATCH_TYPES)
        query = dict(step.get("query") or {})
        if headers["Content-Type"].startswith("application/apply") and random.random() < 0.9:
            query.setdefault("fieldManager", "m")
        return {**step, "headers": headers, "query": query}
    else:
        headers["Content-Type"] = random.choice(hostile.CONTENT_TYPES)
    return {**step, "headers": headers}


def _target(step: Json, _: Grammar, random: Random) -> Json:
    """Another method, name or subresource."""
    path: str = step["path"]
    luck = random.random()
    if step.get("watch"):
        return step
    if luck < 0.3:
        method = random.choice(hostile.METHODS)
        if method == "DELETE" and not path.startswith(("/api/v1/namespaces/<ns>/", "/apis/")):
            return step
        return {**step, "method": method}
    if luck < 0.7:
        return {**step, "path": f"{path.rstrip('/')}/{random.choice(hostile.SUBRESOURCES)}"}
    if luck < 0.9:
        shorter = path.rpartition("/")[0]
        return {**step, "path": shorter if "/namespaces/<ns>/" in shorter else path}
    return {**step, "path": path + random.choice(("/", "/x", "x", "/x/y/z"))}


_STEP: Final[tuple[Callable[[Json, Grammar, Random], Json], ...]] = (
    _body,
    _body,
    _body,
    _body,
    _body,
    _body,
    _query,
    _query,
    _headers,
    _target,
)


def varied_step(step: Json, grammar: Grammar, random: Random) -> Json:
    """A request with one variation."""
    return random.choice(_STEP)(step, grammar, random)


def watched(step: Json) -> Json:
    """Mark what opens a watch, and bound how long it stays open."""
    query = step.get("query") or {}
    on = flag(query.get("watch")) or "/watch/" in step.get("path", "")
    if step.get("method") not in ("GET", "HEAD") or not on:
        return (
            step if "watch" not in step else {key: v for key, v in step.items() if key != "watch"}
        )
    return {**step, "watch": True, "query": {**query, "timeoutSeconds": "1"}}


def harmless(step: Json) -> bool:
    """Return whether a request touches nothing that other conversations need."""
    if "path" not in step:
        return True
    path, method = step["path"].rstrip("/"), step["method"]
    if method == "DELETE" and path.count("/") <= 4 and not path.startswith("/apis/<ns>"):
        named = "<ns>" in path.rpartition("/")[2]
        return named and path != "/api/v1/namespaces/<ns>"
    return "/proxy" not in path


def varied(base: Conversation, grammar: Grammar, random: Random) -> Conversation:
    """A conversation like a recorded one, with some variations."""
    steps = list(base.steps)
    others = grammar.corpus.by_class[base.of]
    if random.random() < 0.5:
        steps += random.choice(others).steps[: random.randint(1, 6)]
    for _ in range(random.choice((1, 2, 2, 3, 4, 6))):
        at = random.randrange(len(steps))
        if "path" not in steps[at]:
            continue
        luck = random.random()
        if luck < 0.8:
            steps[at] = varied_step(steps[at], grammar, random)
        elif luck < 0.85:
            steps.insert(at + 1, steps[at])
        elif luck < 0.9 and len(steps) > 1 and steps[at].get("method") != "POST":
            del steps[at]
        elif luck < 0.95:
            donor = random.choice(random.choice(others).steps)
            steps.insert(at + 1, donor)
        else:
            other = random.randrange(len(steps))
            steps[at], steps[other] = steps[other], steps[at]
    kept = [watched(step) for step in steps if harmless(step)][:MAX_STEPS]
    return evolve(base, steps=tuple(_settled(kept)) or base.steps[:1])


_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _settled(steps: list[Json]) -> list[Json]:
    """The requests, with a pause after each that makes or removes a definition: when it is served is no rule."""
    found: list[Json] = []
    for step in steps:
        found.append(step)
        path, body = step.get("path", ""), step.get("body")
        if step.get("method") == "DELETE" and path.startswith(f"{_DEFINITIONS}/"):
            found.append({"waitGone": path.rpartition("/")[2]})
        if step.get("method") == "POST" and path == _DEFINITIONS and isinstance(body, dict):
            name = (
                (body.get("metadata") or {}).get("name")
                if isinstance(body.get("metadata"), dict)
                else None
            )
            if isinstance(name, str) and "/" not in name and name:
                found.append({"waitEstablished": name})
    return found
