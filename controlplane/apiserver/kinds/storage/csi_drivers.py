"""CSIDrivers. Upstream: pkg/registry/storage/csidriver, pkg/apis/storage."""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import entries, immutable, needed_one_of, one_of, when
from controlplane.apiserver.kinds.core.volume_sources import csi_driver_name
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy, same, without
from controlplane.apiserver.kinds.trees import filled, in_spec
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    required,
)
from controlplane.apiserver.schema.releases import reached

__all__ = ["KIND"]

_SECRETS_SINCE: Final = 35
"""The minor release that has serviceAccountTokenInSecrets."""


def default_csi_driver(tree: Tree) -> Tree:
    """The switches of a CSI driver."""

    def spec(spec: Tree) -> Tree:
        spec = filled(
            spec,
            {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "requiresRepublish": False,
                "seLinuxMount": False,
            },
        )
        if not spec.get("volumeLifecycleModes"):
            spec = {**spec, "volumeLifecycleModes": ["Persistent"]}
        return spec

    return in_spec(tree, spec)


_FS_GROUP = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")
MIN_PERIOD = 10
"""Seconds between two looks at what a node can hold, at least."""


def validate_csi_driver(tree: Tree) -> list[FieldError]:
    """Return the errors of a CSI driver."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    if len(tree["metadata"].get("name", "")) > 63:
        errors += csi_driver_name(tree["metadata"]["name"], "metadata.name")
    for key in ("attachRequired", "podInfoOnMount", "storageCapacity"):
        if key not in spec:
            path = "spec.attachedRequired" if key == "attachRequired" else f"spec.{key}"
            errors.append(required(path))
    policy = spec.get("fsGroupPolicy")
    errors += needed_one_of(policy, "spec.fsGroupPolicy", _FS_GROUP)
    audiences: dict[str, None] = {}
    for request, path in entries(spec, "tokenRequests", "spec"):
        audience = request.get("audience", "")
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences[audience] = None
        seconds = request.get("expirationSeconds")
        if seconds is None:
            continue
        problem = "may not specify a duration less than 10 minutes"
        errors += when(seconds < 600, invalid, f"{path}.expirationSeconds", seconds, problem)
        problem = "may not specify a duration larger than 2^32 seconds"
        errors += when(seconds > 1 << 32, invalid, f"{path}.expirationSeconds", seconds, problem)
    for mode in spec.get("volumeLifecycleModes") or ():
        errors += one_of(mode, "spec.volumeLifecycleModes", _LIFECYCLES, sort=False)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < MIN_PERIOD:
        text = f"must be greater than or equal to {MIN_PERIOD} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    errors += when(
        in_secrets is not None and not spec.get("tokenRequests"),
        invalid,
        "spec.serviceAccountTokenInSecrets",
        in_secrets,
        "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
    )
    return errors


def validate_csi_driver_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed CSI driver."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_csi_driver(new)
    errors += immutable(
        spec.get("attachRequired"), was.get("attachRequired"), "spec.attachedRequired"
    )
    return errors + immutable(
        spec.get("volumeLifecycleModes"),
        was.get("volumeLifecycleModes"),
        "spec.volumeLifecycleModes",
    )


class CSIDriverStrategy(Strategy):
    """CSI drivers: what alpha gates bring is dropped, changes are counted, new ones are not."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return _without_scheduling(super().prepare_create(ctx, tree))

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        new = _without_scheduling(super().prepare_update(ctx, new, old))
        if same(new, old, "spec"):
            return new
        generation = old["metadata"].get("generation", 0) + 1
        return {**new, "metadata": {**new["metadata"], "generation": generation}}

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """The warnings of this kind."""
        spec = tree.get("spec") or {}
        if old is not None and same(spec, old.get("spec") or {}, "tokenRequests"):
            return []
        if not spec.get("tokenRequests") or "serviceAccountTokenInSecrets" in spec:
            return []
        if not reached(ctx.earlier, _SECRETS_SINCE):
            return []
        return [
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true "
            "to prevent possible logging of tokens in volume attributes"
        ]


def _without_scheduling(tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    if "preventPodSchedulingIfMissing" not in spec:
        return tree
    return {**tree, "spec": without(spec, "preventPodSchedulingIfMissing")}


def _row(tree: Tree, now: int) -> list[Any]:
    spec = part_of(tree, "spec")
    tokens = ",".join(r.get("audience", "") for r in spec.get("tokenRequests") or ())
    return [
        name_of(tree),
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        tokens or "<unset>",
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age_of(tree, now),
    ]


KIND = Kind(
    strategy=CSIDriverStrategy(
        default=default_csi_driver,
        rule=validate_csi_driver,
        update_rule=validate_csi_driver_update,
        has_status=False,
        returns_deleted=True,
        unconditional_update=False,
    ),
    row=_row,
)
