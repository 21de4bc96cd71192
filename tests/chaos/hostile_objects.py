"""Objects that hostile requests are made of."""

from __future__ import annotations

import json


def schema_of(spec) -> dict:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


def definition(spec) -> dict:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema_of(spec)},
                }
            ],
        },
    }


def thing(name, spec) -> dict:
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def pod(meta=None, **spec) -> dict:
    given = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"metadata": {"name": "p", **(meta or {})}, "spec": given}


def template(spec, **more) -> dict:
    labels = {"app": "a"}
    return {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            **more,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def nested(levels: int, end: object = 1, key: str | None = "a") -> object:
    for _ in range(levels):
        end = [end] if key is None else {key: end}
    return end


def _levels(levels: int) -> dict:
    schema: dict = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def _deep_json(body: object) -> bytes:
    """JSON of whatever depth."""
    import sys

    kept = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        return json.dumps(body).encode()
    finally:
        sys.setrecursionlimit(kept)
