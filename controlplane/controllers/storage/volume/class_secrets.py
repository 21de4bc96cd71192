"""Secrets that a storage class names, for each purpose, with templates; and what of its parameters the driver gets.

Upstream: external-provisioner pkg/controller/controller.go (getSecretReference, removePrefixedParameters).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.csi import decoded
from controlplane.client import calls
from controlplane.client.resources import SECRETS as SECRET_OBJECTS
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot.parameters import (
    RESERVED,
    ParameterError,
    Secret,
    SecretReference,
    resolved_reference,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.tree import Tree

PROVISIONER: Final = Secret("Provisioner", "provisioner-secret")
FOR_VOLUMES: Final[tuple[tuple[str, Secret], ...]] = (
    ("controllerPublishSecretRef", Secret("ControllerPublish", "controller-publish-secret")),
    ("nodeStageSecretRef", Secret("NodeStage", "node-stage-secret")),
    ("nodePublishSecretRef", Secret("NodePublish", "node-publish-secret")),
    ("controllerExpandSecretRef", Secret("ControllerExpand", "controller-expand-secret")),
    ("nodeExpandSecretRef", Secret("NodeExpand", "node-expand-secret")),
)
"""The fields of a volume that refer to secrets."""
FS_TYPE: Final = f"{RESERVED}fstype"
_KNOWN: Final = frozenset(
    (
        FS_TYPE,
        *(
            f"{RESERVED}{each.key}-{part}"
            for each in (PROVISIONER, *(secret for _, secret in FOR_VOLUMES))
            for part in ("name", "namespace")
        ),
    )
)


def reference(
    secret: Secret, parameters: Mapping[str, str], volume: str, claim: Tree
) -> SecretReference | None:
    """The secret that a class names for one purpose, for a volume and its claim. Raises Retry."""
    metadata = claim["metadata"]
    namespace = {"pv.name": volume, "pvc.namespace": metadata["namespace"]}
    name = {**namespace, "pvc.name": metadata["name"]}
    for key, value in (metadata.get("annotations") or {}).items():
        name[f"pvc.annotations['{key}']"] = value
    try:
        return resolved_reference(secret, parameters, namespace, name)
    except ParameterError as error:
        raise Retry(str(error)) from None


def for_volume(parameters: Mapping[str, str], volume: str, claim: Tree) -> Tree:
    """The fields of a volume's source that refer to secrets."""
    found: Tree = {}
    for field, secret in FOR_VOLUMES:
        named = reference(secret, parameters, volume, claim)
        if named is not None:
            found[field] = {"name": named.name, "namespace": named.namespace}
    return found


def credentials(named: SecretReference | None) -> Reconcile[dict[str, str]]:
    """Return the content of a secret; read from the server each time."""
    if named is None:
        return {}
    try:
        secret = yield from calls.get(SECRET_OBJECTS, named.namespace, named.name)
    except RequestFailed as error:
        raise Retry(
            f"error getting secret {named.name} in namespace {named.namespace}: {error}"
        ) from None
    return decoded(secret.tree)


def driver_parameters(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without those that are not the driver's. Raises Retry."""
    for key in parameters:
        if key.startswith(RESERVED) and key not in _KNOWN:
            raise Retry(
                "failed to strip CSI Parameters of prefixed keys: found unknown parameter key "
                f'"{key}" with reserved namespace {RESERVED}'
            )
    return {
        key: value
        for key, value in parameters.items()
        if not key.startswith(RESERVED) and key.lower() != "fstype"
    }
