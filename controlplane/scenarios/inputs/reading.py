"""The inputs of a run: nodes that exist from the start, and objects with their submission times.

Manifests are submitted in file order at virtual time 0, those with the annotation
`emulate.controlplane/submit-seconds` that much later. A trace (see `openb`) brings its nodes, and
creations and deletions at its own times, or all creations at once. Objects that a server wrote out
become manifests again (see `exported`). A record of kube-scheduler-simulator (see `simulator_files`) brings
creations, updates and deletions at its own times; a Scenario of it (see `step_scenario`) brings operations by step.
Templates and recordings of kwokctl (see `kwokctl_files`) become objects, and changes at their own times.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from controlplane.api.times import SECOND
from controlplane.errors import UsageError
from controlplane.scenarios.inputs import manifests, openb
from controlplane.scenarios.inputs.exported import (
    SYSTEM_NAMESPACES,
    as_manifest,
    identity_of,
    is_exported,
    is_made_anew,
)
from controlplane.scenarios.inputs.kwokctl_files import is_template, recorded, scaled
from controlplane.scenarios.inputs.simulator_files import (
    ADD,
    Change,
    changes_of,
    is_record,
    replayed,
)
from controlplane.scenarios.inputs.step_scenario import is_scenario, scenario_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from controlplane.scenarios.inputs.manifests import Manifest
    from controlplane.scenarios.inputs.step_scenario import StepScenario

Tree = dict[str, Any]
LATER = "emulate.controlplane/submit-seconds"
CREATE = "create"
UPDATE = "update"
DELETE = "delete"
_VERBS = {"Add": CREATE, "Update": UPDATE, "Delete": DELETE}
"""The writes that repeat the changes of a record."""
FIRST_NODES_NS = SECOND
"""A recorder lists what is there at its start: nodes of that time are machines of the run, later ones are not."""


@frozen
class Submission:
    """One write of the user: create, update or delete this object at `at_ns` (virtual)."""

    at_ns: int
    verb: str
    tree: Tree = field(repr=False)
    error: Callable[[str, str], UsageError] = field(repr=False)
    """Makes the error for (field, message), naming where the object was written."""
    exported: bool = False
    """The object is the manifest of one that a server wrote out."""


@frozen
class Inputs:
    """Everything a run is given, in order of time."""

    nodes: tuple[Tree, ...]
    submissions: tuple[Submission, ...]
    is_trace: bool
    left_out: Counter[str] = field(factory=Counter)
    """By kind, exported objects that are not submitted, for the control plane makes them itself."""
    namespaces: tuple[str, ...] = ()
    """Namespaces of exported objects that the files do not define; they are made, too."""
    scheduler: Manifest | None = None
    """The scheduler's configuration in an export of kube-scheduler-simulator; of several, the last."""
    scenario: StepScenario | None = None
    """The Scenario of kube-scheduler-simulator that the files hold."""


def load(paths: Sequence[str | Path], *, all_at_once: bool = False) -> Inputs:
    """Read manifests (YAML, JSON, folders of them, - for standard input), traces (CSV, known by their header line),
    and exports and records of kube-scheduler-simulator.

    With `all_at_once` every pod of a trace is created at time 0, and none is deleted. Raises
    UsageError.
    """
    nodes: list[Tree] = []
    submissions: list[Submission] = []
    traced = False
    written: list[Manifest] = []
    configurations: list[Manifest] = []
    for path in paths:
        kind = openb.detect(path) if Path(path).suffix.lower() == ".csv" else None
        if kind == "nodes":
            nodes += openb.load_nodes(path)
        elif kind == "pods":
            traced = True
            submissions += _trace(str(path), all_at_once=all_at_once)
        elif Path(path).suffix.lower() == ".csv":
            raise UsageError(
                f"{path}:1: not a node list or a pod list of the openb trace: unknown header line"
            )
        elif Path(path).suffix == ".py":
            raise UsageError(
                f"{path}: expected manifests, found Python: for a scenario, controlplane explore {path}"
            )
        elif Path(path).suffix == ".jsonl":
            machines, repeated = _record(Path(path))
            traced = True
            nodes += machines
            submissions += repeated
        else:
            written += manifests.load([path], configurations)
    scenario: StepScenario | None = None
    for manifest in written:
        if is_scenario(manifest.tree):
            if scenario is not None:
                raise manifest.error("", f"Scenario {scenario.name} is there: expected one at most")
            scenario = scenario_of(manifest)
    written = [each for each in written if not is_scenario(each.tree)]
    patches = [each for each in written if manifests.is_patch(each.tree)]
    written = [
        made
        for each in written
        if not manifests.is_patch(each.tree)
        for made in (scaled(each) if is_template(each.tree) else (each,))
    ]
    left_out: Counter[str] = Counter()
    needed: dict[str, Submission] = {}
    exported = {identity_of(each.tree): each.tree for each in written if _is_exported(each)}
    for manifest in written:
        tree = manifest.tree
        if _is_exported(manifest):
            if is_made_anew(tree, exported):
                left_out[tree["kind"]] += 1
                continue
            tree = as_manifest(tree)
        if tree["kind"] == "Node" and tree["apiVersion"] == "v1":
            nodes.append(tree)
            continue
        submissions.append(_submission(manifest, tree))
        if _is_exported(manifest) and tree["metadata"].get("namespace"):
            needed.setdefault(tree["metadata"]["namespace"], submissions[-1])
    submissions += _changes(written, patches)
    made = _missing_namespaces(needed, submissions)
    submissions = [*made, *submissions]
    submissions.sort(key=lambda found: found.at_ns)
    names = tuple(each.tree["metadata"]["name"] for each in made)
    return Inputs(
        tuple(nodes),
        tuple(submissions),
        traced,
        left_out,
        names,
        configurations[-1] if configurations else None,
        scenario,
    )


def _changes(snapshot: Sequence[Manifest], patches: Sequence[Manifest]) -> Iterator[Submission]:
    """Yield the changes of a recording of kwokctl as writes at their times. Raises UsageError."""
    if not patches:
        return
    for change, manifest in recorded(snapshot, patches):
        tree = replayed(change, lambda _namespace, _name: "")
        if tree is not None:
            verb = _VERBS[change.event]
            yield Submission(change.at, verb, tree, manifest.error, exported=True)


def _is_exported(manifest: Manifest) -> bool:
    return manifest.exported or is_exported(manifest.tree)


def _missing_namespaces(
    needed: dict[str, Submission], given: Sequence[Submission]
) -> list[Submission]:
    """Creations of namespaces that exported objects stand in and that no file defines."""
    defined = {
        each.tree["metadata"].get("name") for each in given if each.tree["kind"] == "Namespace"
    }
    return [
        Submission(
            0,
            CREATE,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            first.error,
        )
        for name, first in needed.items()
        if name not in defined and name not in SYSTEM_NAMESPACES
    ]


def _submission(manifest: Manifest, tree: Tree) -> Submission:
    notes = (tree.get("metadata") or {}).get("annotations") or {}
    text = str(notes.get(LATER, "0"))
    try:
        at = round(Decimal(text) * SECOND)
    except ArithmeticError:
        at = -1
    if at < 0:
        raise manifest.error(f"metadata.annotations[{LATER}]", f"{text!r}: expected seconds")
    return Submission(at, CREATE, tree, manifest.error, exported=_is_exported(manifest))


def _record(path: Path) -> tuple[list[Tree], list[Submission]]:
    """The nodes that a record begins with, and its changes as writes at their times. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error.reason}") from None
    if not is_record(text):
        raise UsageError(
            f"{path}:1: not a record: expected an object with time, event and resource"
        )
    nodes: list[Tree] = []
    found: list[Submission] = []
    start: int | None = None
    for change in changes_of(text, str(path)):
        tree = replayed(change, lambda _namespace, _name: "")
        if tree is None:
            continue
        start = change.at if start is None else start
        at = max(change.at - start, 0)
        is_node = tree["kind"] == "Node" and tree["apiVersion"] == "v1"
        if is_node and change.event == ADD and at < FIRST_NODES_NS:
            nodes.append(tree)
            continue
        refuse = partial(_record_error, f"{path}:{change.line}", change)
        found.append(Submission(at, _VERBS[change.event], tree, refuse, exported=True))
    return nodes, found


def _record_error(place: str, change: Change, field_path: str, message: str) -> UsageError:
    return UsageError(f"{place}: {manifests.describe(change.resource)}: {field_path}: {message}")


def _trace(path: str, *, all_at_once: bool) -> list[Submission]:
    found = []
    for pod in openb.load_pods(path):

        def error(
            field_path: str, message: str, line: int = pod.line, tree: Tree = pod.tree
        ) -> UsageError:
            return UsageError(f"{path}:{line}: {manifests.describe(tree)}: {field_path}: {message}")

        if all_at_once:
            found.append(Submission(0, CREATE, pod.tree, error))
            continue
        found.append(Submission(pod.creation_s * SECOND, CREATE, pod.tree, error))
        if pod.deletion_s is not None:
            found.append(Submission(pod.deletion_s * SECOND, DELETE, pod.tree, error))
    return found
