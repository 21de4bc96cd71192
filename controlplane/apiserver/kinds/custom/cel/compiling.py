"""From a text to something that runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.checker import Checked, checked
from controlplane.apiserver.kinds.custom.cel.evaluation import PlanError, Run, planned
from controlplane.apiserver.kinds.custom.cel.signatures import DEVICES
from controlplane.apiserver.kinds.custom.cel.syntax import parsed
from controlplane.apiserver.kinds.custom.cel.types import DYN, Type

__all__ = ["RULE_NAMES", "Program", "compile_rule", "compiled"]

RULE_NAMES = frozenset(("self", "oldSelf"))


@frozen(eq=False)
class Program:
    """A compiled expression. `variables` are the names it uses, `gives` is its type."""

    source: str
    checked: Checked
    run: Run
    variables: frozenset[str]

    @property
    def gives(self) -> Type:
        """The type of what it comes to."""
        return self.checked.gives


def compiled(source: str, types: Mapping[str, Type]) -> Program:
    """The compiled expression over variables of these types.

    Raises:
        CelError: with all mistakes; PlanError if only a constant cannot be computed.
    """
    found = checked(parsed(source, bindings=DEVICES in types), types)
    used = frozenset(found.names.values())
    try:
        run = planned(found)
    except PlanError as error:
        error.gives = found.gives
        raise
    return Program(source, found, run, used & types.keys())


@lru_cache(maxsize=4096)
def compile_rule(source: str, names: frozenset[str] = RULE_NAMES) -> Program:
    """The compiled expression over variables of any type. CelError with all mistakes."""
    return compiled(source, dict.fromkeys(sorted(names), DYN))
