"""The admission check of ProvisioningRequests in the process: queues of its two reconcilers, and what wakes them.

Follows `SetupWithManager` of `pkg/controller/admissionchecks/provisioning/controller.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.equality import by_value
from controlplane.client.resources import PROVISIONING_REQUESTS
from controlplane.controllers.common.controller import Work
from controlplane.kueue.jobs.ancestors import controller_of
from controlplane.kueue.names import GROUP
from controlplane.kueue.process.kinds import CHECKS, PROVISIONING_CONFIGS, WORKLOADS
from controlplane.kueue.provisioning.configs import CHECK, CheckController, is_ours, uses
from controlplane.kueue.provisioning.controller import ProvisioningController
from controlplane.kueue.provisioning.templates import WORKLOAD
from controlplane.kueue.workload.status import key_of, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Host
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.process.carrying import Carried
    from controlplane.kueue.process.reader import CacheReader
    from controlplane.kueue.process.topologies import Carry
    from controlplane.kueue.process.wiring import Changed

WORKLOADS_QUEUE: Final = "kueue-provisioning-workload"
CHECKS_QUEUE: Final = "kueue-provisioning-admissioncheck"
WATCHED: Final = ("ProvisioningRequestConfig", "ProvisioningRequest", "PodTemplate")
"""The kinds that are watched besides those of all worlds."""


class Provisioning:
    """The two reconcilers of the check with their queues.

    Args:
        host: The controller's host.
        reader: Informer caches.
        gates: Kueue's feature gates.
        workers: Workers of the queue of Workloads.
        carry: Carries a reconcile of a key of a queue out.
    """

    def __init__(
        self, host: Host, reader: CacheReader, gates: Gates, workers: int, carry: Carry
    ) -> None:
        self._reader = reader
        self._workers = workers
        self._carry = carry
        self._controller = ProvisioningController(reader, lambda: host.now, gates)
        self._check_controller = CheckController(reader, lambda: host.now)
        self._workloads = host.queue(WORKLOADS_QUEUE)
        self._checks = host.queue(CHECKS_QUEUE)

    def changes(self) -> Mapping[Resource[Any], Changed]:
        """Return the event handlers by resource."""
        return {
            WORKLOADS: self._workload,
            PROVISIONING_REQUESTS: self._request,
            CHECKS: self._check,
            PROVISIONING_CONFIGS: self._config,
        }

    def work(self) -> Sequence[Work]:
        """The queues and their reconciles."""
        return (
            Work(WORKLOADS_QUEUE, self._reconcile, workers=self._workers),
            Work(CHECKS_QUEUE, self._reconcile_check, workers=1),
        )

    # -- changes -----------------------------------------------------------------------------------

    def _workload(self, old: Tree | None, new: Tree | None) -> None:
        self._workloads.add(key_of(new or old or {}))

    def _request(self, old: Tree | None, new: Tree | None) -> None:
        """The Workload that a request was made for is reconciled."""
        for each in (old, new):
            owner = None if each is None else controller_of(each)
            if each is None or owner is None or owner["kind"] != WORKLOAD:
                continue
            if owner["apiVersion"].split("/")[0] == GROUP:
                self._workloads.add(f"{each['metadata'].get('namespace', '')}/{owner['name']}")

    def _check(self, old: Tree | None, new: Tree | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        self._checks.add(name)
        if is_ours(old) or is_ours(new):
            self._workloads_with(name)

    def _workloads_with(self, check: str) -> None:
        for each in self._reader.list(WORKLOAD):
            checks = status_of(each).get("admissionChecks") or ()
            if any(known["name"] == check for known in checks):
                self._workloads.add(key_of(each))

    def _config(self, old: Tree | None, new: Tree | None) -> None:
        if old is not None and new is not None and _class_of(old) == _class_of(new):
            return
        name = (new or old or {})["metadata"]["name"]
        users = [each["metadata"]["name"] for each in self._reader.list(CHECK) if uses(each, name)]
        for user in users:
            self._workloads_with(user)
            self._checks.add(user)

    # -- reconciles --------------------------------------------------------------------------------

    def _reconcile(self, key: str) -> Carried[None]:
        reconcile = self._controller.reconcile(*key.split("/", 1))
        yield from self._carry(self._workloads, key, reconcile)

    def _reconcile_check(self, name: str) -> Carried[None]:
        yield from self._carry(self._checks, name, self._check_controller.reconcile(name))


def _class_of(config: Tree) -> object:
    """The fields whose change may lead to other requests."""
    spec = config["spec"]
    resources = sorted(spec.get("managedResources") or ())
    return spec["provisioningClassName"], by_value(spec.get("parameters") or {}), resources
