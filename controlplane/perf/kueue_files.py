"""Files of Kueue's own scalability test: cohorts, queues and workloads to generate, and the ranges of a good result.

Upstream: kueue test/performance/scheduler (runner/generator, checker), files `generator.yaml` and `rangespec.yaml`.
A field that has no meaning here (topologies) is refused by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from attrs import frozen

from controlplane.api import yaml_text
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.api.tree import Tree

__all__ = ["QueueSet", "Ranges", "WorkloadSet", "load_generator", "load_ranges"]

POLICIES = ("Never", "LowerPriority", "Any", "LowerOrNewerEqualPriority", "")
TEMPLATE = {"className": str, "runtimeMs": int, "priority": int, "request": str}
"""The fields of a workload, and their kinds; a number is as good as its text."""


@frozen
class Template:
    """One kind of workload: class, virtual milliseconds that it runs, priority and CPUs."""

    name: str
    runtime_ms: int
    priority: int
    request: str


@frozen
class WorkloadSet:
    """Workloads that one task creates, one after each interval."""

    count: int
    interval_ms: int
    workloads: tuple[Template, ...]


@frozen
class QueueSet:
    """Equal queues of a cohort: `name` is their class."""

    name: str
    count: int
    nominal: str
    borrowing: str
    reclaim: str
    within: str
    sets: tuple[WorkloadSet, ...]

    @property
    def workloads(self) -> int:
        """The number of workloads of one queue."""
        return sum(each.count * len(each.workloads) for each in self.sets)


@frozen
class CohortSet:
    """Equal cohorts: `name` is their class."""

    name: str
    count: int
    queues: tuple[QueueSet, ...]


@frozen
class Ranges:
    """Limits of a result: wall milliseconds, lowest usage by class of queues, longest mean wait by class."""

    wall_ms: int = 0
    usage: Mapping[str, float] = {}
    wait_ms: Mapping[str, float] = {}


class _Reader:
    """Reads fields of one file; each error names the file and the field."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fail(self, where: str, expected: str, found: object) -> UsageError:
        return UsageError(f"{self._path}: {where}: expected {expected}, found {found!r}")

    def document(self) -> Tree:
        try:
            found = yaml_text.load(self._path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{self._path}: cannot be read: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._path}: no YAML: {' '.join(str(error).split())}") from error
        return self.fields("the file", found)

    def fields(self, where: str, value: Any, allowed: tuple[str, ...] = ()) -> Tree:
        if not isinstance(value, dict):
            raise self.fail(where, "fields", value)
        unknown = next((key for key in value if allowed and key not in allowed), None)
        if unknown is not None:
            raise self.fail(f"{where}.{unknown}", f"one of {', '.join(allowed)}", unknown)
        return value

    def several(self, where: str, value: Any, read: Callable[[str, Any], Any]) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise self.fail(where, "a list", value)
        return tuple(read(f"{where}[{at}]", each) for at, each in enumerate(value))

    def number(self, where: str, value: Any, low: int = 0) -> int:
        if isinstance(value, str) and value.replace("_", "").isdigit():
            value = int(value)  # upstream writes 260_000
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise self.fail(where, f"a whole number from {low} on", value)
        return value

    def text(self, where: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.fail(where, "a text", value)
        return str(value)

    def template(self, where: str, value: Any) -> Template:
        tree = self.fields(where, value, tuple(TEMPLATE))
        return Template(
            self.text(f"{where}.className", tree.get("className")),
            self.number(f"{where}.runtimeMs", tree.get("runtimeMs", 0)),
            self.number(f"{where}.priority", tree.get("priority", 0), -(1 << 31)),
            self.text(f"{where}.request", tree.get("request")),
        )

    def workload_set(self, where: str, value: Any) -> WorkloadSet:
        tree = self.fields(where, value, ("count", "creationIntervalMs", "workloads"))
        return WorkloadSet(
            self.number(f"{where}.count", tree.get("count", 0)),
            self.number(f"{where}.creationIntervalMs", tree.get("creationIntervalMs", 0)),
            self.several(f"{where}.workloads", tree.get("workloads"), self.template),
        )

    def queue_set(self, where: str, value: Any) -> QueueSet:
        names = (
            "className", "count", "nominalQuota", "borrowingLimit", "reclaimWithinCohort",
            "withinClusterQueue", "workloadsSets",
        )  # fmt: skip
        tree = self.fields(where, value, names)
        policies = [str(tree.get(name, "")) for name in names[4:6]]
        for name, policy in zip(names[4:6], policies, strict=True):
            if policy not in POLICIES:
                raise self.fail(f"{where}.{name}", "a policy of preemption", policy)
        return QueueSet(
            self.text(f"{where}.className", tree.get("className")),
            self.number(f"{where}.count", tree.get("count", 0)),
            self.text(f"{where}.nominalQuota", tree.get("nominalQuota")),
            self.text(f"{where}.borrowingLimit", tree.get("borrowingLimit", "")),
            policies[0],
            policies[1],
            self.several(f"{where}.workloadsSets", tree.get("workloadsSets"), self.workload_set),
        )

    def cohort_set(self, where: str, value: Any) -> CohortSet:
        tree = self.fields(where, value, ("className", "count", "queuesSets"))
        return CohortSet(
            self.text(f"{where}.className", tree.get("className")),
            self.number(f"{where}.count", tree.get("count", 0)),
            self.several(f"{where}.queuesSets", tree.get("queuesSets"), self.queue_set),
        )

    def ranges(self, where: str, value: Any) -> dict[str, float]:
        found = {}
        for name, most in self.fields(where, value or {}).items():
            if isinstance(most, float):
                found[name] = most
            else:
                found[name] = float(self.number(f"{where}.{name}", most))
        return found


def load_generator(path: Path) -> tuple[CohortSet, ...]:
    """Read a generator's file. Raises UsageError."""
    reader = _Reader(path)
    tree = reader.fields("the file", reader.document(), ("cohorts",))
    found: tuple[CohortSet, ...] = reader.several("cohorts", tree.get("cohorts"), reader.cohort_set)
    return found


def load_ranges(path: Path) -> Ranges:
    """Read a file of ranges. Raises UsageError."""
    reader = _Reader(path)
    names = ("cmd", "clusterQueueClassesMinUsage", "wlClassesMaxAvgTimeToAdmissionMs")
    tree = reader.fields("the file", reader.document(), names)
    command = reader.fields("cmd", tree.get("cmd") or {}, ("maxWallMs",))
    return Ranges(
        reader.number("cmd.maxWallMs", command.get("maxWallMs", 0)),
        reader.ranges(names[1], tree.get(names[1])),
        reader.ranges(names[2], tree.get(names[2])),
    )
