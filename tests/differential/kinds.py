"""Conversations about one object of any kind, with fields that the served OpenAPI names."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.differential import openapi
from tests.differential.corpus import Conversation
from tests.differential.mutating import Grammar, varied_step, watched

Json = Any

CLASS: Final = "openapi"
_NAMESPACE: Final[Json] = {
    "method": "POST",
    "path": "/api/v1/namespaces",
    "body": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<ns>"}},
}
_ACCOUNT: Final[Json] = {
    "method": "POST",
    "path": "/api/v1/namespaces/<ns>/serviceaccounts",
    "body": {
        "apiVersion": "v1",
        "automountServiceAccountToken": False,
        "kind": "ServiceAccount",
        "metadata": {"name": "default"},
    },
}
_LEFT_OUT: Final = (
    "Namespace",
    "APIService",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "CustomResourceDefinition",
)
"""Kinds of which a hostile object would change how the server treats other conversations."""
_NAME: Final = "<ns>-x"


def conversation(grammar: Grammar, random: Random) -> Conversation:
    """Create an object with a few more fields, then change it in each way there is."""
    kinds = [kind for kind in sorted(grammar.corpus.objects) if kind[1] not in _LEFT_OUT]
    kind = random.choice(kinds)
    path, body = random.choice(grammar.corpus.objects[kind])
    schema = grammar.schemas.of_kind(*kind)
    base = {**body, "metadata": {**_labels(body), "name": _NAME}}
    one = f"{path}/{_NAME}"
    steps: list[Json] = [
        {"method": "POST", "path": path, "body": _with(base, schema, grammar, random)}
    ]
    for _ in range(random.randint(1, 5)):
        changed = _with(base, schema, grammar, random)
        steps.append(_change(changed, one, path, random))
    if random.random() < 0.3:
        steps.append({"method": "DELETE", "path": one})
    for _ in range(random.choice((0, 0, 1, 2))):
        at = random.randrange(len(steps))
        steps[at] = varied_step(steps[at], grammar, random)
    return Conversation(CLASS, (_NAMESPACE, _ACCOUNT), tuple(watched(step) for step in steps))


def _labels(body: Json) -> Json:
    metadata = body.get("metadata")
    return {"labels": {"a": "1"}} if isinstance(metadata, dict) and "labels" in metadata else {}


def _with(base: Json, schema: Json, grammar: Grammar, random: Random) -> Json:
    """The object with some fields of its schema set."""
    properties = schema.get("properties") or {}
    names = [name for name in sorted(properties) if name not in ("apiVersion", "kind", "metadata")]
    out = dict(base)
    for _ in range(random.choice((0, 1, 1, 2))):
        if not names:
            break
        name = random.choice(names)
        made = openapi.sample(grammar.schemas, properties[name], random, 1)
        kept = out.get(name)
        if isinstance(made, dict) and isinstance(kept, dict):
            for key in sorted(made)[:2]:
                kept = {**kept, key: made[key]}
            made = kept
        out[name] = made
    return out


def _change(body: Json, one: str, many: str, random: Random) -> Json:
    def patch(media: str, content: Json, query: Json | None = None) -> Json:
        step = {"method": "PATCH", "path": one, "headers": {"Content-Type": media}, "body": content}
        return {**step, "query": query} if query else step

    part = {
        key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")
    }
    return random.choice(
        (
            {"method": "PUT", "path": one, "body": body},
            {"method": "PUT", "path": f"{one}/status", "body": body},
            patch("application/merge-patch+json", part),
            patch("application/strategic-merge-patch+json", part),
            patch("application/apply-patch+yaml", body, {"fieldManager": "m", "force": "true"}),
            patch("application/apply-patch+yaml", body, {"fieldManager": "n"}),
            {
                "method": "GET",
                "path": one,
                "headers": {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"},
            },
            {"method": "GET", "path": many, "query": {"labelSelector": "a=1"}},
        )
    )
