"""The memory of the eviction controller: allocated claims, pools, rules, and the pods that are to be deleted.

Upstream keeps it under one lock; each method here is what happens under it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from controlplane.api import resource_claims as rules
from controlplane.api.resource_claims import ClaimRuleError
from controlplane.controllers.devices.tainteviction.evictions import (
    Eviction,
    earliest,
    of_claim,
    rule_matches,
)
from controlplane.controllers.devices.tainteviction.pools import (
    NO_EXECUTE,
    Pool,
    PoolId,
    modified,
    pool_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.indexer import Indexer

__all__ = ["AllocatedClaim", "DeviceTaints", "PodRef", "RuleRef", "Tasks", "effect_of"]


class PodRef(NamedTuple):
    """A pod: its key and its uid."""

    key: str
    uid: str


class RuleRef(NamedTuple):
    """A DeviceTaintRule: its name and its uid."""

    name: str
    uid: str


class AllocatedClaim(NamedTuple):
    """A claim with devices, and when they drive its pods away."""

    claim: Object[Any]
    eviction: Eviction | None


class Tasks(Protocol):
    """The requests that a change of the state makes."""

    def evict(self, pod: PodRef, eviction: Eviction) -> None:
        """Delete a pod at a time."""

    def cancelled(self, pod: PodRef) -> None:
        """A pod is not to be deleted any more: its devices are fine again."""

    def look_at_rule(self, rule: RuleRef, *, soon: bool) -> None:
        """Bring the status of a rule up to date, at once or `soon`."""


class _NoTasks:
    """Nothing is done: for trying out what a rule would do."""

    def evict(self, pod: PodRef, eviction: Eviction) -> None: ...

    def cancelled(self, pod: PodRef) -> None: ...

    def look_at_rule(self, rule: RuleRef, *, soon: bool) -> None: ...


NOTHING: Final = _NoTasks()


def effect_of(rule: Object[Any]) -> str:
    """Return the effect of a rule's taint."""
    return str((rule.tree["spec"].get("taint") or {}).get("effect", ""))


def _allocated(claim: Object[Any]) -> bool:
    return (claim.tree.get("status") or {}).get("allocation") is not None


def _ref(rule: Object[Any]) -> RuleRef:
    return RuleRef(rule.name, rule.uid)


class DeviceTaints:
    """The decisions about pods with devices.

    Args:
        pods: the cache of pods, with index "pod_group" where `groups`.
        tasks: what is to be done.
        groups: whether claims of pod groups count (DRAWorkloadResourceClaims).
    """

    def __init__(self, pods: Indexer[Any], tasks: Tasks, *, groups: bool) -> None:
        self._pods = pods
        self._tasks = tasks
        self._groups = groups
        self.delete_at: dict[PodRef, Eviction] = {}
        self.claims: dict[str, AllocatedClaim] = {}
        self.pools: dict[PoolId, Pool] = {}
        self.evicting: dict[str, Object[Any]] = {}
        self.evicted_by_rule: dict[str, int] = {}
        """By uid of a rule, the number of pods evicted since the start."""

    # ------------------------------------------------------------------ changes

    def claim_changed(self, old: Object[Any] | None, new: Object[Any] | None) -> None:
        """Take in a claim. The time of its eviction is computed when it is allocated, and kept."""
        claim = new or old
        assert claim is not None
        if new is None:
            self.claims.pop(claim.key, None)
            self._look_at_users(claim)
        elif old is None:
            if _allocated(new):
                self.claims[new.key] = AllocatedClaim(new, self._claim_eviction(new))
                self._look_at_users(new)
        elif old.uid != new.uid:
            self.claim_changed(old, None)
            self.claim_changed(None, new)
        elif _allocated(old) or _allocated(new):
            if not _allocated(new):
                self.claims.pop(new.key, None)
            elif _allocated(old):
                known = self.claims.get(new.key)
                self.claims[new.key] = AllocatedClaim(new, known.eviction if known else None)
            else:
                self.claims[new.key] = AllocatedClaim(new, self._claim_eviction(new))
            if rules.reserved_for(old.tree) != rules.reserved_for(new.tree):
                self._look_at_users(old)
            self._look_at_users(new)

    def rule_changed(self, old: Object[Any] | None, new: Object[Any] | None) -> None:
        """Take in a DeviceTaintRule; only its spec counts."""
        if old is None:
            assert new is not None
            self._tasks.look_at_rule(_ref(new), soon=False)
        elif new is None:
            self.evicted_by_rule.pop(old.uid, None)
            self.evicting.pop(old.name, None)
        elif old.uid == new.uid:
            if old.tree["spec"] == new.tree["spec"]:
                return
            self._tasks.look_at_rule(_ref(new), soon=False)
        if old is not None and effect_of(old) == NO_EXECUTE:
            self.evicting.pop(old.name, None)
        if new is not None and effect_of(new) == NO_EXECUTE:
            self.evicting[new.name] = new
        for key in list(self.claims):
            self._recompute(key)

    def slice_changed(self, old: Object[Any] | None, new: Object[Any] | None) -> None:
        """Take in a ResourceSlice: claims with a device whose taints changed are looked at."""
        found = new or old
        assert found is not None
        pool_id = pool_of(found)
        pool = self.pools.get(pool_id) or Pool()
        before = pool.tainted()
        if old is not None:
            pool.remove(old)
        if new is not None:
            pool.add(new)
        if pool.slices:
            self.pools[pool_id] = pool
        else:
            self.pools.pop(pool_id, None)
        changed = modified(before, pool.tainted())
        if not changed:
            return
        for key, known in list(self.claims.items()):
            if _uses(known.claim.tree, pool_id, changed):
                self._recompute(key)

    def pod_changed(self, old: Object[Any] | None, new: Object[Any] | None) -> None:
        """Take in a pod: only its node and the names of its claims count."""
        if new is None:
            assert old is not None
            self.delete_at.pop(PodRef(old.key, old.uid), None)
        elif old is None or _matters(old) != _matters(new):
            self.look_at_pod(new)

    # ------------------------------------------------------------------ what follows

    def _recompute(self, key: str) -> None:
        """Compute the eviction of a claim anew, and look at its users unless it is as before; none is no time."""
        known = self.claims[key]
        eviction = self._claim_eviction(known.claim)
        self.claims[key] = AllocatedClaim(known.claim, eviction)
        if eviction is None or eviction != known.eviction:
            self._look_at_users(known.claim)

    def _claim_eviction(self, claim: Object[Any]) -> Eviction | None:
        return of_claim(claim.tree, self.pools, self.evicting.values())

    def _look_at_users(self, claim: Object[Any]) -> None:
        for user in rules.reserved_for(claim.tree):
            kind = user.get("apiGroup", ""), user.get("resource", "")
            key = f"{claim.namespace}/{user.get('name', '')}"
            if kind == ("", "pods"):
                pod = self._pods.get(key)
                if pod is not None and pod.uid == user.get("uid", ""):
                    self.look_at_pod(pod)
            elif self._groups and kind == (rules.SCHEDULING_GROUP, "podgroups"):
                for pod in self._pods.by_index("pod_group", key):
                    self.look_at_pod(pod)

    def look_at_pod(self, pod: Object[Any]) -> None:
        """Plan the deletion of a pod, or give it up."""
        eviction = self.pod_eviction(pod)
        ref = PodRef(pod.key, pod.uid)
        if eviction is None:
            if self.delete_at.pop(ref, None) is not None:
                self._tasks.cancelled(ref)
            return
        self.delete_at[ref] = eviction
        self._tasks.evict(ref, eviction)
        for taint in eviction.reason:
            if taint.rule is not None:
                self._tasks.look_at_rule(_ref(taint.rule), soon=True)

    def pod_eviction(self, pod: Object[Any]) -> Eviction | None:
        """Return when a scheduled pod has to go for its claims; those of extended resources do not count."""
        if not (pod.tree.get("spec") or {}).get("nodeName"):
            return None
        found: Eviction | None = None
        for entry in rules.claim_entries(pod.tree):
            eviction = self._eviction_of_entry(pod, entry)
            if eviction is not None:
                found = eviction if found is None else earliest(found, eviction)
        return found

    def _eviction_of_entry(self, pod: Object[Any], entry: Tree) -> Eviction | None:
        try:
            name, check = rules.name_of(pod.tree, entry)
            known = None if name is None else self.claims.get(f"{pod.namespace}/{name}")
            if known is None:
                return None
            if check:
                rules.check_owner(pod.tree, known.claim.tree, groups=self._groups)
        except ClaimRuleError:
            return None
        if not rules.is_reserved_for(pod.tree, known.claim.tree, groups=self._groups):
            return None
        return known.eviction

    # ------------------------------------------------------------------ for the status of rules

    def would_evict(self, rule: Object[Any]) -> DeviceTaints:
        """Return the memory as it would be if a rule had the effect NoExecute, and no other rule was there."""
        taint = {**(rule.tree["spec"].get("taint") or {}), "effect": NO_EXECUTE}
        tree = {**rule.tree, "spec": {**rule.tree["spec"], "taint": taint}}
        tried = DeviceTaints(self._pods, NOTHING, groups=self._groups)
        tried.claims = dict(self.claims)
        tried.pools = self.pools
        tried.rule_changed(rule, type(rule)(tree))
        return tried

    def pending(self, rule: Object[Any]) -> tuple[int, int]:
        """Return how many pods a rule drives away, and in how many namespaces."""
        number, namespaces = 0, set()
        for pod in self._pods:
            if pod.metadata.get("deletionTimestamp") is not None:
                continue
            eviction = self.pod_eviction(pod)
            for taint in () if eviction is None else eviction.reason:
                if taint.rule is not None and taint.rule.uid == rule.uid:
                    number += 1
                    namespaces.add(pod.namespace)
        return number, len(namespaces)

    def selected(self, rule: Object[Any]) -> tuple[int, int]:
        """Return how many published devices a rule selects, and how many allocated ones."""
        published = sum(
            rule_matches(rule.tree, driver, pool_name, device.get("name", ""))
            for (driver, pool_name), pool in self.pools.items()
            for _, device in pool.current()
        )
        allocated = sum(
            rule_matches(
                rule.tree,
                result.get("driver", ""),
                result.get("pool", ""),
                result.get("device", ""),
            )
            for known in self.claims.values()
            for result in rules.allocated_devices(known.claim.tree)
        )
        return published, allocated


def _matters(pod: Object[Any]) -> tuple[str, Any]:
    """The parts of a pod that decide whether it is evaluated again."""
    statuses = (pod.tree.get("status") or {}).get("resourceClaimStatuses") or []
    return (pod.tree.get("spec") or {}).get("nodeName", ""), statuses


def _uses(claim: Tree, pool: PoolId, devices: Iterable[str]) -> bool:
    return any(
        (result.get("driver", ""), result.get("pool", "")) == pool
        and result.get("device", "") in devices
        for result in rules.allocated_devices(claim)
    )
