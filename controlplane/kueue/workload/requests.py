"""Requests of pod sets before admission: what pods ask for, less what is excluded, transformed.

Follows `pkg/workload/workload.go` (applyResourceTransformations) and `pkg/util/resource`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree
from controlplane.kueue.amounts import Requests, requests_of_quantities

Quantities = dict[str, Quantity]
T = TypeVar("T")
_ZERO: Final = Quantity.new(0)


@dataclass(frozen=True)
class Transformation:
    """A rule that turns a requested resource into others.

    `multiply_by` names a resource whose quantity multiplies the outputs; `retain` keeps the input.
    """

    outputs: Mapping[str, Quantity]
    retain: bool = True
    multiply_by: str = ""


@dataclass(frozen=True)
class RequestOptions:
    """Part `resources` of Kueue's configuration."""

    excluded_prefixes: Sequence[str] = ()
    transformations: Mapping[str, Transformation] = field(default_factory=dict)

    @staticmethod
    def from_config(resources: Tree) -> RequestOptions:
        """Read `excludeResourcePrefixes` and `transformations`; a later rule for an input wins."""
        rules = {
            each["input"]: Transformation(
                {name: parse(str(text)) for name, text in (each.get("outputs") or {}).items()},
                (each.get("strategy") or "Retain") == "Retain",
                each.get("multiplyBy") or "",
            )
            for each in resources.get("transformations") or ()
        }
        return RequestOptions(tuple(resources.get("excludeResourcePrefixes") or ()), rules)


NO_OPTIONS: Final = RequestOptions()


def merged(
    a: Mapping[str, T] | None, b: Mapping[str, T] | None, choose: Callable[[T, T], T] | None = None
) -> dict[str, T]:
    """Both maps as one; where both have a name, `choose` decides, without it the first stays."""
    result = dict(a or {})
    for name, value in (b or {}).items():
        if name not in result:
            result[name] = value
        elif choose is not None:
            result[name] = choose(result[name], value)
    return result


def pod_spec_quantities(spec: Tree) -> Quantities:
    """The requests of one pod of this specification."""
    return pod_requests(Pod.from_tree({"spec": spec}))


def pod_spec_requests(spec: Tree) -> Requests:
    """The same as amounts."""
    return requests_of_quantities(pod_spec_quantities(spec))


def effective_quantities(spec: Tree, options: RequestOptions) -> Quantities:
    """The requests of one pod as quota counts them."""
    asked = pod_spec_quantities(spec)
    if options.excluded_prefixes:
        prefixes = tuple(options.excluded_prefixes)
        asked = {name: each for name, each in asked.items() if not name.startswith(prefixes)}
    return transformed(asked, options.transformations)


def transformed(asked: Quantities, rules: Mapping[str, Transformation]) -> Quantities:
    """Apply the rules. What they generate for a resource counts as 0 if it is negative in sum."""
    if not any(name in rules for name in asked):
        return asked
    retained: Quantities = {}
    generated: Quantities = {}
    for name, amount in asked.items():
        rule = rules.get(name)
        if rule is None:
            retained[name] = amount
            continue
        basis = amount
        if rule.multiply_by in asked:
            basis = amount.times(asked[rule.multiply_by])
        outputs = {output: basis.times(factor) for output, factor in rule.outputs.items()}
        generated = merged(generated, outputs, Quantity.add)
        if rule.retain:
            retained[name] = amount
    generated = {name: _ZERO if amount.sign() < 0 else amount for name, amount in generated.items()}
    return merged(retained, generated, Quantity.add)
