"""When a claim's devices drive its pods away, and which taints do. Upstream: device_taint_eviction.go."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import frozen

from controlplane.api.resource_claims import allocated_devices, selects_device, tolerates
from controlplane.api.times import SECOND, parse_time
from controlplane.controllers.devices.tainteviction.pools import NO_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.controllers.devices.tainteviction.pools import Pool, PoolId

__all__ = ["Eviction", "TrackedTaint", "earliest", "of_claim", "rule_matches"]


@frozen
class TrackedTaint:
    """A taint with its origin: a rule, or the taint number `index` of a device in a slice.

    Two are equal if they come from the same revision of the rule or the slice.
    """

    rule: Object[Any] | None = None
    slice: Object[Any] | None = None
    device: str = ""
    index: int = 0

    def taint(self) -> Tree:
        """Return the taint."""
        if self.rule is not None:
            found: Tree = self.rule.tree["spec"].get("taint") or {}
            return found
        assert self.slice is not None
        for device in self.slice.tree["spec"].get("devices") or ():
            if device.get("name") == self.device:
                taint: Tree = device["taints"][self.index]
                return taint
        raise KeyError(self.device)

    def order(self) -> tuple[Any, ...]:
        """Return the place among the taints of an eviction: rules first, by name."""
        if self.rule is not None:
            return (0, self.rule.name)
        assert self.slice is not None
        spec = self.slice.tree["spec"]
        pool = (spec.get("pool") or {}).get("name", "")
        return (1, spec.get("driver", ""), pool, self.device, self.index)

    def __str__(self) -> str:
        if self.rule is not None:
            return f"DeviceTaintRule /{self.rule.name}:{self.rule.uid}"
        assert self.slice is not None
        _, driver, pool, device, index = self.order()
        place = f"{driver}/{pool}/{device} taint #{index}"
        return f"ResourceSlice /{self.slice.name}:{self.slice.uid} {place}"


class Eviction(NamedTuple):
    """The time of an eviction (nanoseconds since the Unix epoch), and the taints behind it, in order."""

    when: int
    reason: tuple[TrackedTaint, ...]

    def __str__(self) -> str:
        return ", ".join(str(each) for each in self.reason)


def rule_matches(rule: Tree, driver: str, pool: str, device: str) -> bool:
    """Return whether a DeviceTaintRule selects a device; one without a selector selects none."""
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    return selects_device(selector, driver, pool, device)


def _taints(
    result: Tree, pools: Mapping[PoolId, Pool], rules: Iterable[Object[Any]]
) -> Iterator[TrackedTaint]:
    """The NoExecute taints of an allocated device: those of its slice, then those of rules."""
    driver, name = result.get("driver", ""), result.get("device", "")
    pool = pools.get((driver, result.get("pool", "")))
    published = None if pool is None else pool.device(name)
    if published is not None:
        of_slice, device = published
        for index, taint in enumerate(device.get("taints") or ()):
            if taint.get("effect") == NO_EXECUTE:
                yield TrackedTaint(None, of_slice, name, index)
    for rule in rules:
        if rule_matches(rule.tree, driver, result.get("pool", ""), name):
            yield TrackedTaint(rule)


def _due(taint: Tree, tolerations: Sequence[Tree]) -> tuple[bool, int | None]:
    """Return whether a taint counts at all, and from when on; None for a taint without a time.

    Only tolerations that name the effect count. One without seconds tolerates for ever.
    """
    seconds = None
    for toleration in tolerations:
        if toleration.get("effect") == NO_EXECUTE and tolerates(toleration, taint):
            given = toleration.get("tolerationSeconds")
            if given is None:
                return False, None
            seconds = max(given, 0) if seconds is None else min(seconds, max(given, 0))
    added = taint.get("timeAdded")
    if added is None:
        return True, None
    return True, parse_time(added) + (seconds or 0) * SECOND


def of_claim(
    claim: Tree, pools: Mapping[PoolId, Pool], rules: Iterable[Object[Any]]
) -> Eviction | None:
    """Return when the devices of an allocated claim drive its pods away, if they do."""
    rules = tuple(rules)
    when: int | None = None
    reason: dict[TrackedTaint, None] = {}
    for result in allocated_devices(claim):
        tolerations = result.get("tolerations") or ()
        for tracked in _taints(result, pools, rules):
            counts, due = _due(tracked.taint(), tolerations)
            if not counts:
                continue
            reason[tracked] = None
            if when is None or (due is not None and due < when):
                when = due
    if when is None:
        return None
    return Eviction(when, tuple(sorted(reason, key=TrackedTaint.order)))


def earliest(one: Eviction, other: Eviction) -> Eviction:
    """Return the eviction for two claims of a pod: the earlier time, and the reasons of both."""
    reason = list(other.reason)
    places = [each.order() for each in reason]
    for each in one.reason:
        at = bisect_left(places, each.order())
        if at == len(places) or places[at] != each.order():
            reason.insert(at, each)
            places.insert(at, each.order())
    return Eviction(min(one.when, other.when), tuple(reason))
