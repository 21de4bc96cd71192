"""The reconciler of Workloads with checks of ProvisioningRequests: requests, their PodTemplates, the checks' states.

Follows `pkg/controller/admissionchecks/provisioning/controller.go`. Where upstream walks a Go map of checks, the order
is that of the Workload's status.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from controlplane.api.times import format_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.client.errors import (
    ApiError,
    ConnectionLost,
    RequestFailed,
    is_already_exists,
    is_not_found,
)
from controlplane.kueue.controllers.effects import (
    ApplyStatus,
    Create,
    Delete,
    Done,
    Effect,
    Emit,
    Reader,
    Reconcile,
    ReconcileError,
    Update,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import PROVISIONING_CONTROLLER, PROVISIONING_REQUEST_PREFIX
from controlplane.kueue.provisioning import check_states
from controlplane.kueue.provisioning.configs import CHECK, CONFIG, config_name, is_ours
from controlplane.kueue.provisioning.names import attempt_of, request_name, template_name
from controlplane.kueue.provisioning.pod_sets import is_needed, requested
from controlplane.kueue.provisioning.templates import (
    LABELS,
    REQUEST,
    WORKLOAD,
    handed_over,
    owned_by,
    template_for,
)
from controlplane.kueue.workload.status import (
    condition_text,
    event_text,
    has_quota_reservation,
    is_evicted,
    is_finished,
    status_of,
)
from controlplane.kueue.workload.status_checks import set_check_state
from controlplane.kueue.workload.status_patch import base_patch

TEMPLATE: Final = "PodTemplate"
Stage = Generator[Effect, Any, None]
Configs = Mapping[str, Tree | None]
Current = Mapping[str, Tree]


def current_requests(workload: Tree, configs: Configs, owned: Iterable[Tree]) -> dict[str, Tree]:
    """The ProvisioningRequest of the last attempt for each check, as far as it is needed and as configured.

    Raises:
        ReconcileError: The admission lacks a pod set.
    """
    found: dict[str, Tree] = {}
    last: dict[str, int] = {}
    for check, config in configs.items():
        if config is None or not is_needed(workload, config):
            continue
        for request in owned:
            attempt = attempt_of(request["metadata"]["name"], workload["metadata"]["name"], check)
            if attempt is None or not _as_configured(request, config):
                continue
            if check not in found or last[check] < attempt:
                found[check], last[check] = request, attempt
    return found


def _as_configured(request: Tree, config: Tree) -> bool:
    """Return whether a request has the class of the configuration, and its parameters among others."""
    if request["spec"].get("provisioningClassName") != config["spec"]["provisioningClassName"]:
        return False
    given = request["spec"].get("parameters") or EMPTY_MAP
    wanted = config["spec"].get("parameters") or EMPTY_MAP
    return all(given.get(name) == value for name, value in wanted.items())


def parameters_of(workload: Tree, config: Tree) -> Tree:
    """The parameters of a request: those of the configuration, then those of the Workload's annotations."""
    notes = workload["metadata"].get("annotations") or EMPTY_MAP
    own = {
        name.removeprefix(PROVISIONING_REQUEST_PREFIX): value
        for name, value in notes.items()
        if name.startswith(PROVISIONING_REQUEST_PREFIX)
    }
    return {**(config["spec"].get("parameters") or {}), **own}


@frozen
class ProvisioningController:
    """Reconciles Workloads.

    Args:
        reader: Informer caches.
        clock: Current time in nanoseconds.
        gates: Feature gates.
    """

    reader: Reader
    clock: Callable[[], int]
    gates: Gates

    def reconcile(self, namespace: str, name: str) -> Reconcile:
        """Reconcile one Workload."""
        workload = self.reader.get(WORKLOAD, namespace, name)
        if workload is None:
            return Done()
        evicted = is_evicted(workload)
        if is_finished(workload) or (
            evicted and self.gates.enabled("CleanupProvisioningRequestsOnEviction")
        ):
            yield from self._delete_others(self._owned(workload), {})
        elif not evicted and has_quota_reservation(workload):
            yield from self._reserved(workload)
        return Done()

    def _reserved(self, workload: Tree) -> Stage:
        owned, configs = self._owned(workload), self._configs(workload)
        current = current_requests(workload, configs, owned)
        workload = yield from self._sync_states(workload, configs, current)
        yield from self._delete_others(owned, current)
        yield from self._sync_requests(workload, configs, current)

    def _owned(self, workload: Tree) -> list[Tree]:
        """The requests with the Workload's name among their owners'."""
        name = workload["metadata"]["name"]
        return [
            each
            for each in self.reader.list(REQUEST, workload["metadata"].get("namespace", ""))
            if any(owner["name"] == name for owner in each["metadata"].get("ownerReferences") or ())
        ]

    def _configs(self, workload: Tree) -> dict[str, Tree | None]:
        """The configuration of each check of this controller, None where it does not exist."""
        found: dict[str, Tree | None] = {}
        for each in status_of(workload).get("admissionChecks") or ():
            check = self.reader.get(CHECK, "", each["name"])
            if check is not None and is_ours(check):
                found[each["name"]] = self.reader.get(CONFIG, "", config_name(check))
        return found

    # -- states of checks --------------------------------------------------------------------------

    def _sync_states(
        self, workload: Tree, configs: Configs, current: Current
    ) -> Generator[Effect, Any, Tree]:
        """Write the states of checks that have changed; return the Workload as it is then."""
        checks = [dict(each) for each in status_of(workload).get("admissionChecks") or ()]
        before = {each["name"]: each.get("state", "") for each in checks}
        changed, complete, told = False, True, list[str]()
        for name, config in configs.items():
            new = dict(next(each for each in checks if each["name"] == name))
            if config is None:
                changed = check_states.set_inactive(new) or changed
            elif not is_needed(workload, config):
                changed = check_states.set_not_needed(new) or changed
            elif name in current:
                changed = check_states.follow(new, workload, config, current[name]) or changed
            else:
                complete = False  # nothing of this round is written: the request comes first
                break
            if before[name] != new["state"]:
                told.append(_change_text(name, before[name], new))
            set_check_state(checks, new, self.clock())
        if changed and complete:
            workload = yield from self._apply(workload, checks)
        if changed:
            for text in told:
                reason = "AdmissionCheckUpdated"
                yield Emit(WORKLOAD, workload, "Normal", reason, event_text(text))
        return workload

    def _apply(self, workload: Tree, checks: list[Tree]) -> Generator[Effect, Any, Tree]:
        body = {**base_patch(workload, strict=True), "status": {"admissionChecks": checks}}
        stored: Tree = yield ApplyStatus(WORKLOAD, body, PROVISIONING_CONTROLLER)
        return stored

    # -- requests ----------------------------------------------------------------------------------

    def _delete_others(self, owned: Iterable[Tree], current: Current) -> Stage:
        kept = {each["metadata"]["name"] for each in current.values()}
        for each in owned:
            if each["metadata"]["name"] in kept:
                continue
            try:
                yield Delete(REQUEST, each)
            except ApiError as error:
                if not is_not_found(error):
                    raise

    def _sync_requests(self, workload: Tree, configs: Configs, current: Current) -> Stage:
        checks = {each["name"]: each for each in status_of(workload).get("admissionChecks") or ()}
        for name, config in configs.items():
            if config is None or not is_needed(workload, config):
                continue
            check = checks[name]
            if check.get("state") == check_states.READY:
                continue
            request = current.get(name)
            attempt = check_states.next_attempt(check, workload, request)
            if attempt is not None:
                request = yield from self._create(workload, check, config, attempt)
            assert request is not None  # without one there is an attempt to make
            yield from self._hand_over(workload, request)

    def _create(
        self, workload: Tree, check: Tree, config: Tree, attempt: int
    ) -> Generator[Effect, Any, Tree]:
        """Make the PodTemplates of a request, then the request itself."""
        namespace = workload["metadata"].get("namespace", "")
        name = request_name(workload["metadata"]["name"], check["name"], attempt)
        pod_sets = []
        for each in requested(workload, config):
            template = template_name(name, each.pod_set["name"])
            if self.reader.get(TEMPLATE, namespace, template) is None:
                try:
                    yield Create(
                        TEMPLATE, template_for(workload, template, each, self.reader, self.gates)
                    )
                except (*RequestFailed, ReconcileError) as error:
                    yield from self._failed(workload, check, TEMPLATE, template, error)
                    raise
            pod_sets.append({"podTemplateRef": {"name": template}, "count": each.count})
        spec: Tree = {
            "podSets": pod_sets,
            "provisioningClassName": config["spec"]["provisioningClassName"],
        }
        if parameters := parameters_of(workload, config):
            spec["parameters"] = parameters
        metadata: Tree = {
            "name": name,
            "namespace": namespace,
            "labels": LABELS,
            "ownerReferences": [owned_by(WORKLOAD, workload)],
        }
        try:
            made: Tree = yield Create(REQUEST, {"metadata": metadata, "spec": spec})
        except RequestFailed as error:
            yield from self._failed(workload, check, REQUEST, name, error)
            raise
        text = f'Created ProvisioningRequest: "{name}"'
        yield Emit(WORKLOAD, workload, "Normal", "ProvisioningRequestCreated", text)
        return made

    def _failed(
        self,
        workload: Tree,
        check: Tree,
        kind: str,
        name: str,
        error: ApiError | ConnectionLost | ReconcileError,
    ) -> Stage:
        """Say in the check that an object was not made, unless an earlier reconcile made it."""
        namespace = workload["metadata"].get("namespace", "")
        if not isinstance(error, ReconcileError) and is_already_exists(error):
            if self.reader.get(kind, namespace, name) is None:
                return  # the informer has not heard of it yet, and the message would stay
        text = f'Error creating {kind} "{name}": {error}'
        yield Emit(WORKLOAD, workload, "Warning", "FailedCreate", event_text(text))
        now = format_time(self.clock())
        told = {**check, "message": condition_text(text), "lastTransitionTime": now}
        yield from self._apply(workload, [told])

    def _hand_over(self, workload: Tree, request: Tree) -> Stage:
        """Let the request own its PodTemplates."""
        namespace = request["metadata"].get("namespace", "")
        for each in request["spec"].get("podSets") or ():
            template = self.reader.get(TEMPLATE, namespace, each["podTemplateRef"]["name"])
            if template is None:
                continue
            changed = handed_over(template, workload, request)
            if changed is not None:
                yield Update(TEMPLATE, changed)


def _change_text(name: str, before: str, check: Tree) -> str:
    text = f"Admission check {name} updated state from {before} to {check['state']}"
    return f"{text} with message: {check['message']}" if check.get("message") else text
