"""Kinds of jobs that the command line names (`--kueue-job`)."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.errors import UsageError
from controlplane.kueue.jobs.generic import GenericJob, check_class
from controlplane.kueue.process.kinds import KINDS
from controlplane.user_code import classes_of, load_module

__all__ = ["load"]


def load(modules: Sequence[str]) -> tuple[type[GenericJob], ...]:
    """The classes of all modules, in order.

    Args:
        modules: dotted names, or paths of .py files.

    Raises:
        UsageError: A module cannot be loaded, or a class does not say what it has to.
    """
    found: list[type[GenericJob]] = []
    for name in modules:
        classes = list(classes_of(load_module(name, "kind of job"), GenericJob))
        if not classes:
            raise UsageError(f"{name}: defines no class derived from GenericJob")
        for each in classes:
            check_class(each, name, [*KINDS, *(other.kind.kind for other in found)])
            found.append(each)
    return tuple(found)
