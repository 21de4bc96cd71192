"""ProvisioningRequestConfigs, found by the parameters of AdmissionChecks; the condition Active of those checks.

Follows `pkg/util/admissioncheck` and `pkg/controller/admissionchecks/provisioning/admissioncheck_reconciler.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.controllers.effects import (
    Done,
    Reader,
    Reconcile,
    ReconcileError,
    Update,
    ignoring_not_found,
)
from controlplane.kueue.names import GROUP, PROVISIONING_CONTROLLER
from controlplane.kueue.workload.status import condition, find, set_condition, status_of

CHECK: Final = "AdmissionCheck"
CONFIG: Final = "ProvisioningRequestConfig"
ACTIVE: Final = "Active"


class BadParameters(ReconcileError):
    """An AdmissionCheck does not name a ProvisioningRequestConfig; the text is upstream's."""


def is_ours(check: Tree | None) -> bool:
    """Return whether this controller fills an AdmissionCheck."""
    spec = (check or EMPTY_MAP).get("spec") or EMPTY_MAP
    return bool(spec.get("controllerName") == PROVISIONING_CONTROLLER)


def config_name(check: Tree) -> str:
    """The name of the configuration of an AdmissionCheck.

    Raises:
        BadParameters: Its parameters are missing, or of another kind.
    """
    parameters = check["spec"].get("parameters")
    if parameters is None:
        raise BadParameters("missing parameters reference")
    group, kind = parameters.get("apiGroup", ""), parameters.get("kind", "")
    if not parameters.get("name"):
        raise BadParameters("empty name: bad parameters reference")
    for word, given, expected in (("group", group, GROUP), ("kind", kind, CONFIG)):
        if given != expected:
            raise BadParameters(
                f'wrong {word} "{given}", expecting "{expected}": bad parameters reference'
            )
    return str(parameters["name"])


def uses(check: Tree, config: str) -> bool:
    """Return whether an AdmissionCheck of this controller names a configuration."""
    if not is_ours(check):
        return False
    try:
        return config_name(check) == config
    except BadParameters:
        return False


@frozen
class CheckController:
    """Reconciles the condition Active of AdmissionChecks."""

    reader: Reader
    clock: Callable[[], int]

    def reconcile(self, name: str) -> Reconcile:
        """A check is active while its configuration exists."""
        return (yield from ignoring_not_found(self._reconcile(name)))

    def _reconcile(self, name: str) -> Reconcile:
        check = self.reader.get(CHECK, "", name)
        if check is None or not is_ours(check):
            return Done()
        active, reason, text = True, ACTIVE, "The admission check is active"
        try:
            wanted = config_name(check)
            if self.reader.get(CONFIG, "", wanted) is None:
                raise BadParameters(f'{CONFIG}.{GROUP} "{wanted}" not found')
        except BadParameters as error:
            active, reason, text = False, "BadParametersRef", str(error)
        new = condition(check, ACTIVE, reason, text, self.clock(), status=active)
        if (find(check, ACTIVE) or EMPTY_MAP).get("status") != new["status"]:
            status = dict(status_of(check))
            status["conditions"] = list(status.get("conditions") or ())
            changed = {**check, "status": status}
            set_condition(changed, new)
            yield Update(CHECK, changed, "status")
        return Done()
