"""Scenario objects of kube-scheduler-simulator: operations on the cluster by major step.

Upstream: kubernetes-sigs/kube-scheduler-simulator, keps/140-scenario-based-simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.scenarios.inputs import manifests

if TYPE_CHECKING:
    from controlplane.scenarios.inputs.manifests import Manifest

__all__ = ["Operation", "StepScenario", "is_scenario", "scenario_of"]

GROUP: Final = "simulation.kube-scheduler-simulator.x-k8s.io/"
KIND: Final = "Scenario"
CREATE, PATCH, DELETE, DONE = "create", "patch", "delete", "done"
FIELDS: Final = {
    "createOperation": CREATE,
    "patchOperation": PATCH,
    "deleteOperation": DELETE,
    "doneOperation": DONE,
}
"""The fields of an operation, exactly one of which is given."""
PATCH_TYPES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
SIMULATED: Final = ("scheduler", "kube-scheduler")
"""The names of the controller that is simulated."""
MOST_MAJOR: Final = (1 << 31) - 1
Tree = dict[str, Any]


@frozen
class Operation:
    """One operation.

    verb: CREATE, PATCH, DELETE or DONE.
    given: the operation as it is written.
    tree: the object to create; of a patch and a deletion, the type and name of their object.
    patch: the patch as a tree.
    """

    id: str
    major: int
    verb: str
    given: Tree = field(repr=False)
    tree: Tree = field(factory=dict, repr=False)
    patch: Any = None
    patch_type: str = ""


@frozen
class StepScenario:
    """A checked Scenario. Operations are in the order of their steps, those of one step as they are written.

    `disabled` are the controllers of the controller manager that do not run.
    """

    name: str
    operations: tuple[Operation, ...]
    disabled: tuple[str, ...]
    manifest: Manifest = field(repr=False)

    @property
    def majors(self) -> list[int]:
        """The major steps, in order."""
        return [*dict.fromkeys(each.major for each in self.operations)]

    @property
    def creates_nodes(self) -> bool:
        """Return whether an operation creates a Node."""
        return any(
            each.verb == CREATE and each.tree.get("kind") == "Node" for each in self.operations
        )


def is_scenario(tree: Tree) -> bool:
    """Return whether an object is a Scenario of the simulator."""
    return bool(tree["kind"] == KIND and str(tree["apiVersion"]).startswith(GROUP))


def scenario_of(manifest: Manifest) -> StepScenario:
    """Return the Scenario of a manifest. Raises ManifestError with the field that is wrong."""
    spec = manifest.tree.get("spec")
    if not isinstance(spec, dict):
        raise manifest.error("spec", "required")
    operations = spec.get("operations")
    if not isinstance(operations, list) or not operations:
        raise manifest.error("spec.operations", "expected a list of operations")
    found = [_operation(manifest, number, each) for number, each in enumerate(operations)]
    found.sort(key=lambda each: each.major)
    disabled = _disabled(manifest, spec.get("controllers") or {})
    return StepScenario(manifest.name.partition(" ")[2], tuple(found), disabled, manifest)


def _operation(manifest: Manifest, number: int, tree: Any) -> Operation:
    place = f"spec.operations[{number}]"
    if not isinstance(tree, dict):
        raise manifest.error(place, "expected an object")
    given = [name for name in FIELDS if tree.get(name) is not None]
    if len(given) != 1:
        raise manifest.error(place, f"expected exactly one of {', '.join(FIELDS)}")
    major = tree.get("step")
    if isinstance(major, bool) or not isinstance(major, int) or not 0 <= major <= MOST_MAJOR:
        raise manifest.error(f"{place}.step", "expected a whole number, 0 or more")
    (name,) = given
    inner, verb = tree[name], FIELDS[name]
    place = f"{place}.{name}"
    if not isinstance(inner, dict):
        raise manifest.error(place, "expected an object")
    made = Operation(str(tree.get("id") or f"operation-{number + 1}"), major, verb, inner)
    if verb == DONE:
        return made
    if verb == CREATE:
        target = _object(manifest, inner.get("object"), f"{place}.object")
    else:
        target = _object(manifest, _target(inner), f"{place}.typeMeta")
    if verb != PATCH:
        return Operation(made.id, major, verb, inner, target)
    text = inner.get("patch")
    kind = inner.get("patchType") or inner.get("PatchType")
    if kind not in PATCH_TYPES:
        raise manifest.error(f"{place}.patchType", f"expected one of {', '.join(PATCH_TYPES)}")
    if not isinstance(text, str):
        raise manifest.error(f"{place}.patch", "expected text")
    values = manifests.values(text, manifest.file)
    if len(values) != 1 or not isinstance(values[0][0], dict | list):
        raise manifest.error(f"{place}.patch", "expected a patch in JSON")
    return Operation(made.id, major, verb, inner, target, values[0][0], kind)


def _target(inner: Tree) -> Tree:
    head = inner.get("typeMeta")
    return {**(head if isinstance(head, dict) else {}), "metadata": inner.get("objectMeta") or {}}


def _object(manifest: Manifest, tree: Any, place: str) -> Tree:
    """The object, which has a type and a name."""
    if not isinstance(tree, dict):
        raise manifest.error(place, "expected an object")
    for name in ("apiVersion", "kind"):
        if not isinstance(tree.get(name), str):
            raise manifest.error(f"{place}.{name}", "required")
    meta = tree.get("metadata")
    named = (meta.get("name") or meta.get("generateName")) if isinstance(meta, dict) else None
    if not named or not isinstance(named, str):
        raise manifest.error(place, "expected an object with a name")
    return tree


def _disabled(manifest: Manifest, controllers: Any) -> tuple[str, ...]:
    place = "spec.controllers"
    if not isinstance(controllers, dict):
        raise manifest.error(place, "expected an object")
    simulated = _names(manifest, controllers, "simulationControllers", "enabled")
    for name in simulated:
        if name not in SIMULATED:
            raise manifest.error(
                f"{place}.simulationControllers", f"{name!r}: the scheduler alone is simulated"
            )
    return tuple(_names(manifest, controllers, "presimulationControllers", "disabled"))


def _names(manifest: Manifest, controllers: Tree, which: str, half: str) -> list[str]:
    place = f"spec.controllers.{which}.{half}"
    chosen = controllers.get(which) or {}
    listed = (chosen.get(half) or []) if isinstance(chosen, dict) else None
    if not isinstance(listed, list):
        raise manifest.error(place, "expected a list")
    found = []
    for each in listed:
        name = (each.get("name") or each.get("Name")) if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise manifest.error(place, "expected entries with a name")
        found.append(name)
    return found
