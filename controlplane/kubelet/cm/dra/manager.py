"""The kubelet's manager of claims: it has drivers prepare devices before a pod starts, and unprepare them after.

Upstream: pkg/kubelet/cm/dra/manager.go. Operations are generators: they yield requests to the API server (`Call`),
calls of drivers (`DriverCall`) and the checkpoint file (`Write`). What lies between two of them is one lock region
upstream. Maps that upstream goes through in a random order are gone through here in the order of the claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from controlplane.api import resource_claims as rules
from controlplane.api.quantity import parse
from controlplane.api.quota import is_extended
from controlplane.api.resource_claims import ClaimRuleError
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.calls import Call
from controlplane.client.errors import RequestFailed
from controlplane.client.resources import RESOURCE_CLAIMS
from controlplane.decisions import Decision, Write
from controlplane.kubelet.cm.dra.claim_info import FILE, ClaimCache, ClaimInfo, StateFile, new_claim
from controlplane.kubelet.cm.dra.health import DeviceHealth, HealthCache
from controlplane.kubelet.cm.dra.messages import (
    PREPARE,
    UNPREPARE,
    ClaimRef,
    DriverCall,
    DriverFailed,
    Response,
)
from controlplane.kubelet.cm.errors import ManagerError

__all__ = ["RECONCILE_PERIOD_S", "ClaimError", "DRAManager", "Operation"]

RECONCILE_PERIOD_S: Final = 60
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
Operation = Decision[Call | DriverCall | Write, None]


class ClaimError(ManagerError):
    """Claims of a pod that could not be prepared or unprepared. The text is upstream's."""


@attrs.define
class _Wanted:
    """A claim of a pod as the server has it, with its entry if it is new here."""

    claim: Tree
    fresh: ClaimInfo


class DRAManager:
    """The claims of one node.

    Args:
        cache: the entries, as the checkpoint has them.
        registered: whether a driver is registered with the kubelet.
        groups: whether claims of pod groups count (DRAWorkloadResourceClaims).
        extended: whether claims of extended resources count (DRAExtendedResource).
        own_only: a pod gives back only claims that it holds (gate here11).
        refuses_ending: a pod does not get a claim that is being unprepared (gate 140527).
    """

    def __init__(
        self,
        cache: ClaimCache,
        registered: Callable[[str], bool],
        *,
        groups: bool = False,
        extended: bool = True,
        own_only: bool = False,
        refuses_ending: bool = True,
    ) -> None:
        self._own_only = own_only
        self._refuses_ending = refuses_ending
        self._ending: dict[str, None] = {}
        """By uid the claims that a driver is asked to unprepare."""
        self.cache = cache
        self.health = HealthCache()
        self._registered = registered
        self._groups = groups
        self._extended = extended

    def start(self, text: str | None) -> Operation:
        """Write the first file where there is none; `text` is what there is."""
        if text is None:
            yield Write(FILE, StateFile(None))

    # ------------------------------------------------------------------ prepare

    def prepare(self, pod: Tree) -> Operation:
        """Have the drivers prepare the claims of a pod. Raises ClaimError."""
        try:
            yield from self._prepare(pod)
        except ClaimError as error:
            raise ClaimError(f"prepare dynamic resources: {error}") from None

    def _prepare(self, pod: Tree) -> Operation:
        wanted: list[_Wanted] = []
        for entry in self._entries(pod):
            found = yield from self._fetch(pod, entry)
            if found is not None:
                wanted.append(found)
        batches: dict[str, list[ClaimRef]] = {}
        missing: dict[str, ClaimRef] = {}
        uid = pod["metadata"].get("uid", "")
        for each in wanted:
            info = self._entry(each).with_pod(uid)
            # Until 140527 the pod joined the entry, which is gone when the driver has answered.
            if self._refuses_ending and info.ref.uid in self._ending:
                raise ClaimError(f"ResourceClaim {info.key} is being unprepared")
            self.cache.put(info)
            yield self._file()
            if info.prepared:
                continue
            missing[info.ref.uid] = info.ref
            for driver in info.drivers:
                batches.setdefault(driver, []).append(info.ref)
        for driver, claims in batches.items():
            yield from self._prepare_batch(driver, claims)
        for ref in missing.values():
            self.cache.put(attrs.evolve(self._known(ref), prepared=True))
        yield self._file()

    def _entries(self, pod: Tree) -> Sequence[Tree]:
        entries = rules.claim_entries(pod)
        name = rules.extended_claim_name(pod) if self._extended else None
        return entries if name is None else (*entries, {"resourceClaimName": name})

    def _fetch(self, pod: Tree, entry: Tree) -> Decision[Call | DriverCall | Write, _Wanted | None]:
        """The claim of an entry; None for one that is not needed. Upstream reads it live."""
        meta = pod["metadata"]
        try:
            name, check = rules.name_of(pod, entry)
            if name is None:
                return None
            try:
                obj: Any = yield from calls.get(RESOURCE_CLAIMS, meta.get("namespace", ""), name)
            except RequestFailed as error:
                raise ClaimError(f"fetch ResourceClaim {name}: {error}") from None
            claim: Tree = obj.tree
            if check:
                rules.check_owner(pod, claim, groups=self._groups)
        except ClaimRuleError as error:
            raise ClaimError(str(error)) from None
        if not rules.is_reserved_for(pod, claim, groups=self._groups):
            who = f"pod {meta['name']} ({meta.get('uid', '')})"
            what = f"ResourceClaim {name} ({claim['metadata'].get('uid', '')})"
            raise ClaimError(f"{who} is not allowed to use {what}")
        fresh = new_claim(claim)
        if fresh is None:
            raise ClaimError(f"ResourceClaim {claim['metadata']['name']}: not allocated")
        for driver in fresh.drivers:
            self._check_driver(driver)
        return _Wanted(claim, fresh)

    def _check_driver(self, driver: str) -> None:
        if not driver:
            raise ClaimError("DRA driver name is empty")
        if not self._registered(driver):
            raise ClaimError(f"DRA driver {driver} is not registered")

    def _entry(self, wanted: _Wanted) -> ClaimInfo:
        ref = wanted.fresh.ref
        known = self.cache.get(ref.namespace, ref.name)
        if known is None:
            return wanted.fresh
        if known.ref.uid != ref.uid:
            raise ClaimError(
                f"old ResourceClaim with same name {ref.name} and different UID {known.ref.uid}"
                " still exists (previous pod force-deleted?!)"
            )
        return known

    def _prepare_batch(self, driver: str, claims: Sequence[ClaimRef]) -> Operation:
        # Upstream's process ends with a panic where an entry names a driver that the allocation does not.
        self._check_driver(driver)
        response = yield from self._call(driver, PREPARE, claims)
        for uid, result in response.claims.items():
            ref = _asked(PREPARE, claims, uid, result.error)
            self.cache.put(self._known(ref).with_devices(driver, result.devices))
        _check_complete(PREPARE, claims, response)

    def _known(self, ref: ClaimRef) -> ClaimInfo:
        found = self.cache.get(ref.namespace, ref.name)
        if found is None:
            raise ClaimError(_unknown(ref.namespace, ref.name))
        return found

    def _call(
        self, driver: str, method: str, claims: Sequence[ClaimRef]
    ) -> Decision[Call | DriverCall | Write, Response]:
        try:
            response: Response = yield DriverCall(driver, method, tuple(claims))
        except DriverFailed as error:
            raise ClaimError(f"{method}: {error}") from None
        return response

    def _file(self) -> Write:
        return Write(FILE, self.cache.file())

    # ------------------------------------------------------------------ unprepare

    def unprepare(self, pod: Tree) -> Operation:
        """Have the drivers unprepare the claims that no other pod of the node uses. Raises ClaimError."""
        meta = pod["metadata"]
        try:
            names = self._names(pod)
            yield from self._unprepare(meta.get("uid", ""), meta.get("namespace", ""), names)
        except (ClaimError, ClaimRuleError) as error:
            raise ClaimError(f"unprepare dynamic resources: {error}") from None

    def _names(self, pod: Tree) -> list[str]:
        names = [rules.name_of(pod, entry).name for entry in self._entries(pod)]
        return [name for name in names if name is not None]

    def _unprepare(self, uid: str, namespace: str, names: Iterable[str]) -> Operation:
        batches: dict[str, list[ClaimRef]] = {}
        left: dict[str, ClaimRef] = {}
        for name in names:
            info = self.cache.get(namespace, name)
            if info is None:
                continue  # unprepared already, or never prepared
            # Until here11 a pod that holds nothing, as it ended before it had its claims prepared, or as a first try to
            # give them back was refused, takes them from the one pod that does.
            if self._own_only and uid not in info.pods:
                continue
            if len(info.pods) > 1:
                self.cache.put(info.without_pod(uid))
                continue
            left[info.ref.uid] = info.ref
            for driver in info.drivers:
                batches.setdefault(driver, []).append(info.ref)
        self._ending.update(dict.fromkeys(left))
        try:
            for driver, claims in batches.items():
                self._check_driver(driver)
                response = yield from self._call(driver, UNPREPARE, claims)
                for of_claim, result in response.claims.items():
                    _asked(UNPREPARE, claims, of_claim, result.error)
                _check_complete(UNPREPARE, claims, response)
            for ref in left.values():
                self.cache.remove(ref.namespace, ref.name)
        finally:
            for claim_uid in left:
                self._ending.pop(claim_uid, None)
        yield self._file()

    def unused(self, active: Iterable[str]) -> Mapping[str, tuple[str, tuple[str, ...]]]:
        """Return the pods that use claims without being active: their namespace and the names of the claims."""
        known = frozenset(active)
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        for info in self.cache.claims.values():
            for uid in info.pods:
                if uid not in known:
                    _, names = found.get(uid, ("", ()))
                    found[uid] = (info.ref.namespace, (*names, info.ref.name))
        return found

    def unprepare_unused(self, uid: str, namespace: str, names: Iterable[str]) -> Operation:
        """Unprepare the claims of a pod that is gone; the reconcile loop asks for it. Raises ClaimError."""
        yield from self._unprepare(uid, namespace, names)

    # ------------------------------------------------------------------ questions

    def might_need(self, uid: str) -> bool:
        """Return whether claims may have to be unprepared for a pod."""
        return self.cache.has_pod(uid)

    def cdi_devices(self, pod: Tree, container: Tree) -> list[str]:
        """Return the CDI devices of a container of a prepared pod. Raises ClaimError."""
        namespace = pod["metadata"].get("namespace", "")
        found: list[str] = []
        for name, requests in self._requests(pod, container).items():
            info = self.cache.get(namespace, name)
            if info is None:
                raise ClaimError(_unknown(namespace, name))
            for request in requests:
                found += info.cdi_devices(request)
        return found

    def pods_affected(self, driver: str, changed: Iterable[DeviceHealth]) -> dict[str, None]:
        """Return the pods that use one of these devices of a driver."""
        keys = {each.key: None for each in changed}
        return {
            uid: None
            for info in self.cache.claims.values()
            if any(f"{each.pool}/{each.name}" in keys for each in info.drivers.get(driver) or ())
            for uid in info.pods
        }

    def resource_statuses(
        self, pod: Tree, container: Tree, now: int, *, messages: bool = True
    ) -> list[Tree]:
        """Return allocatedResourcesStatus of a container: the devices of each claim that it names.

        Their health is Unknown where a driver does not report it. Upstream: UpdateAllocatedResourcesStatus.
        """
        namespace = pod["metadata"].get("namespace", "")
        names = {entry.get("name", ""): entry for entry in rules.claim_entries(pod)}
        found: dict[str, list[Tree]] = {}
        for used in (container.get("resources") or {}).get("claims") or ():
            entry, request = names.get(used.get("name", "")), used.get("request", "")
            try:
                name = None if entry is None else rules.name_of(pod, entry).name
            except ClaimRuleError:
                continue
            info = None if not name else self.cache.get(namespace, name)
            if info is not None:
                label = f"claim:{used.get('name', '')}{'/' if request else ''}{request}"
                found[label] = self._health(info, request, now, messages=messages)
        return [{"name": name, "resources": each} for name, each in found.items() if each]

    def _health(self, info: ClaimInfo, request: str, now: int, *, messages: bool) -> list[Tree]:
        """The devices of a claim for a request ("": all), each id once with the health of the first."""
        wanted = rules.base_request(request)
        found: dict[str, Tree] = {}
        for driver, devices in info.drivers.items():
            for device in devices or ():
                if request and device.requests and wanted not in device.requests:
                    continue
                plain = f"{driver}/{device.pool}/{device.name}"
                known = device.cdi_ids[0] if device.cdi_ids else plain
                health, message = self.health.health(driver, device.pool, device.name, now)
                more = {"message": message} if messages and message else {}
                found.setdefault(known, {"resourceID": known, "health": health, **more})
        return list(found.values())

    def _requests(self, pod: Tree, container: Tree) -> dict[str, list[str]]:
        """By name of the claim, the requests that a container names; "" means all of them."""
        resources = container.get("resources") or {}
        used: dict[str, list[str]] = {}
        for each in resources.get("claims") or ():
            used.setdefault(each.get("name", ""), []).append(each.get("request", ""))
        found: dict[str, list[str]] = {}
        for entry in rules.claim_entries(pod):
            requests = used.get(entry.get("name", ""))
            if requests is None:
                continue
            try:
                name = rules.name_of(pod, entry).name
            except ClaimRuleError as error:
                raise ClaimError(str(error)) from None
            if name is not None:
                found.setdefault(name, []).extend(requests)
        if self._extended:
            self._add_extended(pod, container, found)
        return found

    @staticmethod
    def _add_extended(pod: Tree, container: Tree, found: dict[str, list[str]]) -> None:
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if status is None:
            return
        requests = (container.get("resources") or {}).get("requests") or {}
        extended = [
            name
            for name, amount in requests.items()
            if _is_extended(name) and not parse(str(amount)).is_zero()
        ]
        for mapping in status.get("requestMappings") or ():
            if (
                mapping.get("containerName") == container.get("name")
                and mapping.get("resourceName") in extended
            ):
                name = status.get("resourceClaimName", "")
                found.setdefault(name, []).append(mapping.get("requestName", ""))


def _is_extended(name: str) -> bool:
    """Return whether devices may serve a resource: an extended one, or that of a device class."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def _asked(method: str, claims: Sequence[ClaimRef], uid: str, error: str) -> ClaimRef:
    """The claim of a result. Raises ClaimError: it was not asked for, or failed."""
    for ref in claims:
        if ref.uid == uid:
            if error:
                raise ClaimError(f"{method} failed for ResourceClaim {ref.name}: {error}")
            return ref
    raise ClaimError(f"{method} returned result for unknown claim UID {uid}")


def _check_complete(method: str, claims: Sequence[ClaimRef], response: Response) -> None:
    skipped = len(claims) - len(response.claims)
    if skipped:
        raise ClaimError(f"{method} skipped {skipped} ResourceClaims")


def _unknown(namespace: str, name: str) -> str:
    return f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}"
