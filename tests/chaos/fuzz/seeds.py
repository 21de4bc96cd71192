"""Conversations of real requests, from the recordings that the golden tests answer."""

from __future__ import annotations

import json
import lzma
import re
from functools import cache
from pathlib import Path
from typing import Any

from tests.chaos.fuzz.messages import resource_of

Json = Any
DATA = Path(__file__).parents[2] / "golden/data"
FILES = (
    "api/crud",
    "api/patch",
    "api/apply",
    "api/defaulting_validation",
    "api/crd",
    "api/list_watch",
    "api/discovery",
    "further/crud",
    "further/crud.requests",
    "further/crud.policy",
    "further/crud.admission",
    "further/crud.rbac",
    "further/crd",
    "further/defaulting_validation",
    "further/apply",
    "further/patch",
    "further/discovery",
)
_WANT = b'"want":'
_PLACEHOLDERS = (
    (re.compile(r"<(?:rv|listrv):\d+>"), "@rv@"),
    (re.compile(r"<uid:\d+>"), "@uid@"),
    (re.compile(r"<continue:\d+>"), "@continue@"),
    (re.compile(r"<(?:server)?micro_?time>"), "2026-11-22T12:00:00.000001Z"),
    (re.compile(r"<time(\+\d+s)?>"), "2026-11-22T12:00:00Z"),
    (re.compile(r"<port:\d+>"), "30001"),
)
_BODY = 200_000
"""Longer bodies are left to who measures them."""
_BANK = 40
"""So many of a resource are enough."""


@cache
def _lines() -> tuple[bytes, ...]:
    return tuple(line for name in FILES for line in lzma.open(DATA / f"{name}.jsonl.xz", "rb"))


def count() -> int:
    """How many conversations there are."""
    return len(_lines())


@cache
def good(namespace: str) -> dict[str, list[Json]]:
    """Bodies that were created, by `group/resource`."""
    found: dict[str, list[Json]] = {}
    for line in _lines():
        if b'"status": 201' not in line and b'"status":201' not in line:
            continue
        case = json.loads(line)
        want = case["want"]["responses"]
        for step, answered in zip(case["in"]["requests"], want, strict=False):
            if step.get("method") != "POST" or answered.get("status") != 201 or "body" not in step:
                continue
            resource = resource_of(step["path"])
            if resource.count("/") == 1 and "example.com" not in resource:
                text = json.dumps(step["body"])
                if len(text) < 5000 and "<" not in text:
                    text = text.replace(case["in"].get("namespace") or "\0", namespace)
                    bank = found.setdefault(resource, [])
                    if len(bank) < _BANK and text not in bank:
                        bank.append(text)
    return {resource: [json.loads(text) for text in bank] for resource, bank in found.items()}


@cache
def conversation(number: int, namespace: str) -> list[Json]:
    """The requests of one recorded conversation, in a namespace of ours; what waits is left out."""
    case = json.loads(_lines()[number])["in"]
    given = case.get("namespace", "")
    steps = [*case.get("setup", ()), *case.get("requests", ())]
    text = json.dumps(steps)
    if len(text) > _BODY:
        return []
    if given:
        text = text.replace(given, namespace)
    for pattern, value in _PLACEHOLDERS:
        text = pattern.sub(value, text)
    return [
        step for step in json.loads(text) if "method" in step and not _prepares(step, namespace)
    ]


def _prepares(step: Json, namespace: str) -> bool:
    """Whether it makes what is there already: the namespace and its account."""
    body = step.get("body")
    if step["method"] != "POST" or not isinstance(body, dict):
        return False
    meta = body.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return (body.get("kind"), name) in (("Namespace", namespace), ("ServiceAccount", "default"))
