"""The mutants of each component, and a sample of them that is the same every time."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

import controlplane
from controlplane.races.mutants.operators import OPERATORS, mutants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.races.mutants.operators import Mutant

ROOT = Path(controlplane.__file__).parent


@frozen
class Component:
    """The rooms in which a component takes its decisions, and the churns under which its mutants are looked for."""

    rooms: tuple[str, ...]
    churns: tuple[str, ...]
    without: tuple[str, ...] = ()


COMPONENTS: Mapping[str, Component] = {
    "scheduler": Component(
        ("scheduler",),
        ("scheduler",),
        ("scheduler/config", "scheduler/metrics.py", "scheduler/cycle/expla", "scheduler/columns"),
    ),
    "kubelet": Component(("kubelet",), ("kubelet",), ("kubelet/features.py",)),
    "controllers": Component(
        ("controllers",), ("controller",), ("controllers/storage", "controllers/common/go_")
    ),
    "storage": Component(("controllers/storage",), ("storage",)),
    "client": Component(("client",), ("scheduler", "controller"), ("client/queue_metrics.py",)),
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
