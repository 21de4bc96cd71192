"""Quantities, selectors, node selectors and tolerations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api import fields, labels, node_selector, quantity, taints
from controlplane.api.constraints import NodeSelector, PreferredSchedulingTerm, Taint, Toleration
from controlplane.api.decoding import decode
from controlplane.api.labels import SelectorError
from controlplane.api.meta import LabelSelector
from controlplane.api.node import Node
from controlplane.api.quantity import Quantity
from tests.golden.runner import UNANSWERED

Json = Any

_SCALES = {"nano": -9, "micro": -6, "kilo": 3, "mega": 6, "giga": 9}


def _describe(q: Quantity) -> Json:
    whole = q.as_int64()
    return {
        "string": str(q),
        "canonical": q.canonical(),
        "format": q.format,
        "value": str(q.value()),
        "milliValue": str(q.milli_value()),
        "scaledValue": {name: str(q.scaled_value(at)) for name, at in _SCALES.items()},
        "sign": q.sign(),
        "isZero": q.is_zero(),
    } | ({} if whole is None else {"asInt64": str(whole)})


def _parse(case: Json) -> Json:
    return _describe(quantity.parse(case["s"]))


def _arithmetic(case: Json) -> Json:
    a = quantity.parse(case["a"])
    operation = case["kind"].partition(".")[2]
    if operation in ("add", "sub"):
        b = quantity.parse(case["b"])
        result = a + b if operation == "add" else a - b
        return {"string": str(result), "milliValue": str(result.milli_value())}
    if operation == "mul":
        result, ok = a.mul(case["by"])
        return {"string": str(result), "ok": ok}
    if operation == "roundUp":
        result, exact = a.round_up(case["scale"])
        return {"string": str(result), "exact": exact}
    return {"string": str(-a)}


def _compare(case: Json) -> Json:
    a, b = quantity.parse(case["a"]), quantity.parse(case["b"])
    return {"cmp": a.cmp(b)} if case["kind"] == "quantity.cmp" else {"equal": a == b}


def _new(case: Json) -> Json:
    make = Quantity.new if case["kind"] == "quantity.new" else Quantity.new_milli
    return _describe(make(int(case["value"]), case["format"]))


def _label_text(case: Json) -> Json:
    selector = labels.parse(case["s"])
    return {
        "string": str(selector),
        "matches": [selector.matches(item or {}) for item in case["labels"]],
        "empty": selector.empty(),
        "requirements": len(selector.requirements),
        "selectable": selector.selectable(),
    }


def _label_object(case: Json) -> Json:
    raw = case["selector"]
    parsed = None if raw is None else decode(LabelSelector, raw)
    formatted = labels.format_label_selector(parsed)
    try:
        selector = labels.from_label_selector(parsed)
    except SelectorError as error:
        return {"error": str(error), "formatted": formatted}
    return {
        "string": str(selector),
        "matches": [selector.matches(item or {}) for item in case["labels"]],
        "empty": selector.empty(),
        "formatted": formatted,
    }


def _field_text(case: Json) -> Json:
    selector = fields.parse(case["s"])
    exact = selector.exact("metadata.name")
    return {
        "string": str(selector),
        "matches": [selector.matches(item) for item in case["fields"]],
        "requirements": [list(item) for item in selector],
        "empty": selector.empty(),
    } | ({} if exact is None else {"exactName": exact})


def _node_selector(case: Json) -> Json:
    nodes = [Node.from_tree(tree) for tree in case["nodes"]]
    parsed = decode(NodeSelector, case["selector"])
    want: Json = {}
    try:
        strict = node_selector.node_selector(parsed)
        want["match"] = {node.name: strict.match(node) for node in nodes}
    except SelectorError as error:
        want["error"] = str(error)
    lazy = node_selector.LazyNodeSelector(parsed)
    want["lazyMatch"] = {}
    for node in nodes:
        try:
            want["lazyMatch"][node.name] = lazy.match(node)
        except SelectorError as error:
            want["lazyMatch"][node.name] = [False, str(error)]
    return want


def _preferred(case: Json) -> Json:
    terms = node_selector.PreferredTerms(
        decode(PreferredSchedulingTerm, term) for term in case["terms"]
    )
    nodes = [Node.from_tree(tree) for tree in case["nodes"]]
    return {"score": {node.name: terms.score(node) for node in nodes}}


def _tolerations(case: Json) -> Json:
    tolerations = [decode(Toleration, tree) for tree in case["tolerations"]]
    found = [decode(Taint, tree) for tree in case["taints"]]
    first = taints.untolerated(found, tolerations)
    return {
        "tolerates": [[taints.tolerates(one, taint) for taint in found] for one in tolerations],
        "untolerated": first is not None,
    } | ({} if first is None else {"taint": case["taints"][found.index(first)]})


_BY_KIND: dict[str, Callable[[Json], Json]] = {
    "quantity.parse": _parse,
    "quantity.add": _arithmetic,
    "quantity.sub": _arithmetic,
    "quantity.mul": _arithmetic,
    "quantity.neg": _arithmetic,
    "quantity.roundUp": _arithmetic,
    "quantity.cmp": _compare,
    "quantity.equal": _compare,
    "quantity.new": _new,
    "quantity.newMilli": _new,
    "labelSelector.parse": _label_text,
    "labelSelector.object": _label_object,
    "fieldSelector.parse": _field_text,
    "nodeSelector": _node_selector,
    "preferredTerms": _preferred,
    "tolerations": _tolerations,
}


def answer(case: Json) -> Json:
    """What we say to one case; text that is refused gives its error."""
    decide = _BY_KIND.get(case["kind"])
    if decide is None:
        return UNANSWERED
    try:
        return decide(case)
    except ValueError as error:
        return {"error": str(error)}
