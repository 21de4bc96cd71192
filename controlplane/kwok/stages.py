"""Stages of KWOK, read strictly: selector, weight, delay and steps, with upstream's defaults and conversions.

Upstream: sigs.k8s.io/kwok pkg/apis/v1alpha1 and pkg/apis/internalversion, and `Lifecycle.init` in
pkg/utils/lifecycle/lifecycle.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.kwok.fields import Fields, fields_of, name_of

__all__ = ["Delay", "Expression", "Requirement", "Selector", "Stage", "Step", "read"]

MILLISECOND: Final = 1_000_000
_STATUS: Final = "status"


@frozen
class Expression:
    """The source of a value: a query of jq, or an expression of CEL."""

    jq: str | None = None
    cel: str | None = None


@frozen
class Requirement:
    """One requirement of a selector: a key of jq with operator and values, or a condition of CEL."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    cel: str | None = None


@frozen
class Selector:
    """The objects that a stage is for."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requirements: tuple[Requirement, ...] = ()


@frozen
class Delay:
    """How long a stage waits, in nanoseconds; `jitter` is the upper bound of a random delay."""

    duration: int = 0
    duration_from: Expression | None = None
    jitter: int | None = None
    jitter_from: Expression | None = None


@frozen
class Step:
    """One step: at most one each of event, finalizers, deletion, patch and apply."""

    event: Tree | None = None
    finalizers: Tree | None = None
    delete: bool = False
    patch: Tree | None = None
    apply: Tree | None = None


@frozen
class Stage:
    """A stage. `selector` None never matches."""

    name: str
    api_version: str
    kind: str
    selector: Selector | None
    weight: int = 0
    weight_from: Expression | None = None
    delay: Delay | None = None
    steps: tuple[Step, ...] = ()
    immediate_next_stage: bool = False


def read(tree: Tree, place: str = "") -> Stage:
    """Return the stage of a tree. Raises UsageError with the field."""
    reader = _Reader(fields_of(tree, place).where)
    spec = reader.map(tree.get("spec"), "spec")
    reader.known(spec, _SPEC, "spec")
    ref = reader.map(spec.get("resourceRef"), "spec.resourceRef")
    if not ref.get("kind"):
        reader.fail("spec.resourceRef.kind", ref.get("kind"), "a kind")
    steps = reader.list(spec.get("steps"), "spec.steps")
    return Stage(
        name=name_of(tree),
        api_version=str(ref.get("apiGroup") or "v1"),
        kind=str(ref["kind"]),
        selector=reader.selector(spec.get("selector")),
        weight=reader.number(spec.get("weight"), "spec.weight") or 0,
        weight_from=reader.expression(spec.get("weightFrom"), "spec.weightFrom"),
        delay=reader.delay(spec.get("delay")),
        steps=tuple(reader.step(each, f"spec.steps[{at}]") for at, each in enumerate(steps))
        or reader.converted(spec.get("next")),
        immediate_next_stage=bool(spec.get("immediateNextStage")),
    )


_SPEC: Final = "resourceRef selector weight weightFrom delay next steps immediateNextStage".split()
_DELAY: Final = (
    "durationMilliseconds durationFrom jitterDurationMilliseconds jitterDurationFrom".split()
)


class _Reader(Fields):
    """Reads the fields of one stage."""

    def expression(self, value: Any, field: str) -> Expression | None:
        if value is None:
            return None
        tree = self.map(value, field)
        self.known(tree, ("jq", "cel", "expressionFrom"), field)
        if (cel := tree.get("cel")) is not None:
            return Expression(cel=str(self.map(cel, f"{field}.cel").get("expression") or ""))
        if (jq := tree.get("jq")) is not None:
            return Expression(jq=str(self.map(jq, f"{field}.jq").get("expression") or ""))
        return Expression(jq=str(tree.get("expressionFrom") or ""))

    def selector(self, value: Any) -> Selector | None:
        if value is None:
            return None
        tree = self.map(value, "spec.selector")
        self.known(tree, ("matchLabels", "matchAnnotations", "matchExpressions"), "spec.selector")
        entries = self.list(tree.get("matchExpressions"), "spec.selector.matchExpressions")
        return Selector(
            dict(self.map(tree.get("matchLabels"), "spec.selector.matchLabels")),
            dict(self.map(tree.get("matchAnnotations"), "spec.selector.matchAnnotations")),
            tuple(
                self.requirement(each, f"spec.selector.matchExpressions[{at}]")
                for at, each in enumerate(entries)
            ),
        )

    def requirement(self, value: Any, field: str) -> Requirement:
        tree = self.map(value, field)
        if (cel := tree.get("cel")) is not None:
            return Requirement(cel=str(self.map(cel, f"{field}.cel").get("expression") or ""))
        flat = self.map(tree.get("jq"), f"{field}.jq") or tree
        values = self.list(flat.get("values"), f"{field}.values")
        return Requirement(
            str(flat.get("key") or ""),
            str(flat.get("operator") or ""),
            tuple(map(str, values)),
        )

    def delay(self, value: Any) -> Delay | None:
        if value is None:
            return None
        tree = self.map(value, "spec.delay")
        self.known(tree, _DELAY, "spec.delay")
        duration = self.number(tree.get("durationMilliseconds"), "spec.delay.durationMilliseconds")
        field = "spec.delay.jitterDurationMilliseconds"
        jitter = self.number(tree.get("jitterDurationMilliseconds"), field)
        jitter_from = self.expression(
            tree.get("jitterDurationFrom"), "spec.delay.jitterDurationFrom"
        )
        if jitter_from is not None and jitter_from.jq is None:
            jitter_from = Expression()  # only queries of jq are asked
        return Delay(
            (duration or 0) * MILLISECOND,
            self.expression(tree.get("durationFrom"), "spec.delay.durationFrom"),
            None if jitter is None else jitter * MILLISECOND,
            jitter_from,
        )

    def step(self, value: Any, field: str) -> Step:
        tree = self.map(value, field)
        self.known(tree, ("event", "finalizers", "delete", "patch", "apply"), field)
        event, finalizers, patch, apply = (
            None if tree.get(name) is None else dict(self.map(tree[name], f"{field}.{name}"))
            for name in ("event", "finalizers", "patch", "apply")
        )
        return Step(event, finalizers, bool(tree.get("delete")), patch, apply)

    def converted(self, value: Any) -> tuple[Step, ...]:
        """Return the steps of the old form `next`: event, finalizers, patches or a status template, deletion."""
        tree = self.map(value, "spec.next")
        found: list[Step] = []
        for name in ("event", "finalizers"):
            if tree.get(name) is not None:
                found.append(self.step({name: tree[name]}, "spec.next"))
        patches = self.list(tree.get("patches"), "spec.next.patches")
        found += [
            Step(patch=dict(self.map(each, f"spec.next.patches[{at}]")))
            for at, each in enumerate(patches)
        ]
        if not patches and tree.get("statusTemplate"):
            patch: dict[str, Any] = {
                "root": _STATUS,
                "subresource": tree.get("statusSubresource") or _STATUS,
                "template": tree["statusTemplate"],
            }
            if tree.get("statusPatchAs") is not None:
                patch["impersonation"] = tree["statusPatchAs"]
            found.append(Step(patch=patch))
        if tree.get("delete"):
            found.append(Step(delete=True))
        return tuple(found)
