"""ResourceSlices with the taints of DeviceTaintRules, as the allocator and plugins see them.

With gate DRADeviceTaintRules, slices and rules come from two informers, each with a handler of its own. Either handler
reads a slice and all rules, and stores the patched slice: three stores with a lock each, none held over the others.
So a handler that was overtaken stores a slice without the newest rule, until the next change of slice or rule.

Points: `scheduler.slices.read` before a slice and the rules are read, `scheduler.slices.store` before the patched slice
is stored. Upstream: k8s.io/dynamic-resource-allocation/resourceslice/tracker. Kubernetes 1.36.2 ends the scheduler's
process at the first change of a slice when there is a rule (pull request 139651, in 1.36.3); here rules count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api.resource_claims import selects_device
from controlplane.api.view import GenericView
from controlplane.decisions import Point

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controlplane.api.tree import Tree
    from controlplane.api.view import View
    from controlplane.decisions import Steps
    from controlplane.scheduler.state.listers import Lister

__all__ = ["READ", "STORE", "Change", "RuleTaint", "SliceTracker"]

READ: Final = Point("scheduler.slices.read")
STORE: Final = Point("scheduler.slices.store")


class RuleTaint(NamedTuple):
    """A taint with the name of the DeviceTaintRule that it comes from."""

    rule: str
    taint: Tree


class Change(NamedTuple):
    """A patched slice before and after a change, for the queue; None where there is none."""

    old: View | None
    new: View | None


class _Patched(NamedTuple):
    """A patched slice, and by name of a device the taints that rules added to it."""

    view: View
    added: Mapping[str, Sequence[RuleTaint]]


class SliceTracker:
    """The store of patched slices, kept up to date by the handlers of slices and rules."""

    def __init__(self, slices: Lister[View], rules: Lister[View]) -> None:
        self._slices = slices
        self._rules = rules
        self._patched: dict[str, _Patched] = {}

    def slices(self) -> list[Tree]:
        """Return all patched slices."""
        return [each.view.tree for each in self._patched.values()]

    def tainted(self) -> Iterator[tuple[Tree, Tree, Sequence[RuleTaint]]]:
        """Iterate over the devices that rules taint: the slice, the device, and the taints that were added to it."""
        for patched in self._patched.values():
            tree = patched.view.tree
            for device in (tree["spec"].get("devices") or ()) if patched.added else ():
                added = patched.added.get(device.get("name", ""))
                if added:
                    yield tree, device, added

    # ------------------------------------------------------------------ handlers

    def slice_changed(self, old: View | None, new: View | None) -> Iterator[Steps[Change | None]]:
        """Patch a created, updated or deleted slice anew; every such event reaches the queue."""
        found = new or old
        assert found is not None
        yield self._sync(found.metadata.name, always=True)

    def rule_changed(self, old: View | None, new: View | None) -> Iterator[Steps[Change | None]]:
        """A rule appeared, changed or went: patch each slice anew that it selects or selected."""
        names: dict[str, None] = {}
        for rule in (old, new):
            if rule is not None:
                selector = _selector(rule.tree)
                for each in self._slices.list():
                    if _may_select(selector, each.tree):
                        names[each.metadata.name] = None
        for name in names:
            yield self._sync(name, always=False)

    def _sync(self, name: str, *, always: bool) -> Steps[Change | None]:
        """Patch a slice; return its change if the queue is to hear of it: `always`, or if taints differ."""
        known = self._patched.get(name)
        old = None if known is None else known.view
        found = self._slices.get("", name)
        if found is None:
            if old is None:
                return None
            yield STORE
            self._patched.pop(name, None)
            return Change(old, None)
        patched = _patch(found, list(self._rules.list()))
        yield STORE
        self._patched[name] = patched
        if always or old is None or _taints(old.tree) != _taints(patched.view.tree):
            return Change(old, patched.view)
        return None


def _selector(rule: Tree) -> Tree:
    """Return what a rule selects; in 1.36 one without a selector selects every device (issue 141620)."""
    return (rule.get("spec") or {}).get("deviceSelector") or {}


def _may_select(selector: Tree, of_slice: Tree) -> bool:
    """Return whether a rule selects a slice: by driver and pool, and by device if it names one."""
    spec = of_slice.get("spec") or {}
    driver, pool = spec.get("driver", ""), (spec.get("pool") or {}).get("name", "")
    if selector.get("device") is None:
        return selects_device(selector, driver, pool, "")
    return any(
        selects_device(selector, driver, pool, device.get("name", ""))
        for device in spec.get("devices") or ()
    )


def _patch(found: View, rules: Sequence[View]) -> _Patched:
    """Return a slice with the taints of all rules behind those of its devices; itself if no rule selects one."""
    spec = found.tree.get("spec") or {}
    driver, pool = spec.get("driver", ""), (spec.get("pool") or {}).get("name", "")
    added: dict[str, list[RuleTaint]] = {}
    devices = []
    for device in spec.get("devices") or ():
        name = device.get("name", "")
        taints = [
            RuleTaint(rule.metadata.name, (rule.tree.get("spec") or {}).get("taint") or {})
            for rule in rules
            if selects_device(_selector(rule.tree), driver, pool, name)
        ]
        if taints:
            added[name] = taints
            all_taints = [*(device.get("taints") or ()), *(each.taint for each in taints)]
            device = {**device, "taints": all_taints}
        devices.append(device)
    if not added:
        return _Patched(found, {})
    tree = {**found.tree, "spec": {**spec, "devices": devices}}
    return _Patched(GenericView.from_tree(tree), added)


def _taints(tree: Tree) -> list[list[tuple[str, ...]]]:
    """Return the taints of each device, as far as a difference counts.

    Upstream compares device by device under the new slice's length, and panics where the slice has grown in the store
    but its own handler has not come to it yet; here that is a difference.
    """
    keys = ("key", "value", "effect", "timeAdded")
    return [
        [tuple(taint.get(key) or "" for key in keys) for taint in device.get("taints") or ()]
        for device in (tree.get("spec") or {}).get("devices") or ()
    ]
