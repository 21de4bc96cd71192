"""The mutants of each component, and a sample of them that is the same every time."""

from __future__ import annotations

from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

import controlplane
from controlplane.races.mutants.operators import OPERATORS, mutants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.races.mutants.operators import Mutant
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Scenario

ROOT = Path(controlplane.__file__).parent


@frozen
class Component:
    """The rooms in which a component takes its decisions, and the churns that are to come to them."""

    rooms: tuple[str, ...]
    churns: tuple[str, ...]
    without: tuple[str, ...] = ()


COMPONENTS: Mapping[str, Component] = {
    "scheduler": Component(
        ("scheduler",),
        ("scheduler", "storage", "dra", "gang", "coscheduling", "capacity", "numa"),
        ("scheduler/config", "scheduler/metrics.py", "scheduler/cycle/expla", "scheduler/columns"),
    ),
    "kubelet": Component(
        ("kubelet",), ("kubelet", "numa", "storage", "dra"), ("kubelet/features.py",)
    ),
    "controllers": Component(
        ("controllers",),
        ("controller", "dra", "gang"),
        ("controllers/storage", "controllers/common/go_"),
    ),
    "storage": Component(("controllers/storage",), ("storage",)),
    "client": Component(
        ("client",), ("scheduler", "controller", "storage"), ("client/queue_metrics.py",)
    ),
    "apiserver": Component(
        (
            "apiserver/storage",
            "apiserver/requests/registry.py",
            "apiserver/requests/deleting.py",
            "apiserver/requests/writing.py",
            "apiserver/requests/reading.py",
            "apiserver/requests/listing.py",
            "apiserver/loops/watch_streams.py",
        ),
        ("controller", "scheduler", "storage"),
        ("apiserver/storage/old_format.py", "apiserver/storage/wal.py", "apiserver/storage/mirror.py",
         "apiserver/storage/durable_store.py", "apiserver/storage/acknowledged.py"),
    ),
}  # fmt: skip


@frozen
class Workload:
    """A churn, with one value of its first varied option if it has one: what a search of that churn divides into."""

    churn: str
    option: str = ""
    value: str = ""

    @property
    def name(self) -> str:
        """For people, and to find it again."""
        return f"{self.churn} {self.option}={self.value}" if self.option else self.churn

    @classmethod
    def named(cls, name: str) -> Workload:
        """The workload of this name."""
        churn, _, setting = name.partition(" ")
        option, _, value = setting.partition("=")
        return cls(churn, option, value)

    def plan(self) -> Plan:
        """Its plan, with every repair in force: what breaks is the mutant's doing."""
        from controlplane.races.power import every_fix
        from controlplane.scenarios.engine.plan import plan_of

        asked = {self.option: self.value} if self.option else {}
        return plan_of(scenario_of(self.churn), fix=every_fix(), **asked)


def scenario_of(churn: str) -> Scenario:
    """Return the scenario of a built-in churn."""
    found: Scenario = import_module(f"controlplane.scenarios.churns.{churn}_churn").SCENARIO
    return found


def workloads_of(component: str) -> list[Workload]:
    """Return the workloads of a component, churn by churn."""
    found = []
    for churn in COMPONENTS[component].churns:
        varied = next((each for each in scenario_of(churn).all_options if each.varied), None)
        if varied is None:
            found.append(Workload(churn))
        else:
            found += [Workload(churn, varied.key, value) for value in varied.variants]
    return found


def source_of(module: str) -> str:
    """Return the source of a module of the project."""
    path = ROOT.joinpath(*module.split(".")[1:])
    file = path.with_suffix(".py")
    return (file if file.exists() else path / "__init__.py").read_text(encoding="utf-8")


def modules_of(component: str) -> list[str]:
    """Return the names of the modules of a component that take decisions, in order."""
    spec = COMPONENTS[component]
    found = []
    for room in spec.rooms:
        path = ROOT / room
        for file in (
            sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
        ):
            inside = file.relative_to(ROOT).as_posix()
            if not inside.startswith(spec.without or ("\0",)):
                parts = file.relative_to(ROOT).with_suffix("").parts
                found.append(".".join(("controlplane", *parts)).removesuffix(".__init__"))
    return found


def population(component: str) -> list[Mutant]:
    """Return all mutants of a component, module by module."""
    return [
        each for module in modules_of(component) for each in mutants_of(module, source_of(module))
    ]


def sample(mutants: Sequence[Mutant], size: int, seed: int = 0) -> list[Mutant]:
    """Return `size` mutants, drawn evenly over the operators by a hash of their names; all if there are not more."""

    def rank(mutant: Mutant) -> bytes:
        return blake2b(f"{seed} {mutant.name}".encode(), digest_size=8).digest()

    by_operator = [
        sorted((each for each in mutants if each.operator == operator), key=rank)
        for operator in OPERATORS
    ]
    drawn = [each for row in _rows(by_operator) for each in row]
    return drawn[:size]


def _rows(columns: Sequence[Sequence[Mutant]]) -> list[list[Mutant]]:
    longest = max(map(len, columns), default=0)
    return [[column[at] for column in columns if at < len(column)] for at in range(longest)]
