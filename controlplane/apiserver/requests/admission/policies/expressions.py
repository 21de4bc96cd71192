"""The expressions of a policy: their variables, and what they come to within a budget.

Upstream: apiserver pkg/admission/plugin/cel/{compile,composition,condition}.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, frozen

from controlplane.api.tree import Tree

if TYPE_CHECKING:  # the language is loaded with the first policy
    from controlplane.apiserver.kinds.custom.cel import CelError, Program
    from controlplane.apiserver.kinds.custom.cel.types import Type

__all__ = ["BUDGET", "MATCH_BUDGET", "Budget", "BudgetError", "Compiled", "Expressions", "Result"]

PER_CALL: Final = 1_000_000
"""The cost limit of one expression. Upstream: apis/cel/config.go."""
BUDGET: Final = 10_000_000
"""The cost limit of all expressions of a policy for one request and parameter."""
MATCH_BUDGET: Final = BUDGET // 4
_SPENT = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class BudgetError(Exception):
    """The expressions of a policy together cost too much."""

    def __init__(self) -> None:
        super().__init__(_SPENT)


@define
class Budget:
    """The remaining cost."""

    left: int

    def spend(self, cost: int) -> None:
        """BudgetError if less is left."""
        if cost > self.left:
            raise BudgetError
        self.left -= cost


@frozen(eq=False)
class Result:
    """The value of an expression, or its error."""

    value: Any = None
    error: str = ""


@frozen(eq=False)
class Compiled:
    """An expression, or why it does not compile."""

    source: str
    program: Program | None
    error: str = ""


class Expressions:
    """The compiled variables of one policy, and how its expressions are compiled over them."""

    def __init__(self, variables: Iterable[Tree], *, params: bool) -> None:
        from controlplane.apiserver.kinds.custom.cel.types import DYN

        self._params = params
        self._variables: dict[str, Compiled] = {}
        self._types: dict[str, Type] = {}
        for variable in variables:
            name = variable["name"]
            made = self.compile(variable["expression"])
            self._variables[name] = made
            self._types[name] = DYN if made.program is None else made.program.gives

    def compile(self, source: str, *, authorizer: bool = True, patches: bool = False) -> Compiled:
        """An expression over the request's objects and the variables so far; of `patches` if it mutates."""
        from controlplane.apiserver.kinds.custom.cel import CelError, compiled
        from controlplane.apiserver.kinds.custom.expressions import policy_types
        from controlplane.apiserver.kinds.custom.rules import location

        types = policy_types(
            self._types, params=self._params, authorizer=authorizer, patches=patches
        )
        source = source.strip()
        try:
            return Compiled(source, compiled(source, types))
        except CelError as error:
            return Compiled(source, None, location(source, error))

    def compute(
        self,
        given: Sequence[Compiled | None],
        scope: Mapping[str, Any],
        budget: Budget,
    ) -> list[Result | None]:
        """Return the results of the expressions, one after the other. BudgetError."""
        lazy = _Lazy(self._variables, scope, budget)
        everything = {**scope, "variables": lazy}
        return [None if one is None else _computed(one, everything, budget) for one in given]


def _computed(one: Compiled, scope: Mapping[str, Any], budget: Budget) -> Result:
    if one.program is None:
        return Result(error=f"compilation error: compilation failed: {one.error}")
    from controlplane.apiserver.kinds.custom.cel import CelError
    from controlplane.apiserver.kinds.custom.cel.metering import METER, Meter

    meter = Meter(PER_CALL)
    try:
        value = one.program.run({**scope, METER: meter})
    except CelError as error:
        budget.spend(min(meter.spent, PER_CALL))
        return Result(error=f"expression '{one.source}' resulted in error: {error}")
    except RecursionError:
        return Result(
            error=f"expression '{one.source}' resulted in error: recursion limit exceeded"
        )
    budget.spend(meter.spent)
    return Result(value)


class _Lazy(dict[str, Any]):
    """The variables of a policy: each is computed when an expression first asks for it."""

    def __init__(
        self, variables: Mapping[str, Compiled], scope: Mapping[str, Any], budget: Budget
    ) -> None:
        super().__init__()
        self._known = variables
        self._scope = scope
        self._budget = budget
        self._failed: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __missing__(self, name: str) -> Any:
        from controlplane.apiserver.kinds.custom.cel import CelError
        from controlplane.apiserver.kinds.custom.cel.metering import METER, Meter

        if name in self._failed:
            raise CelError(self._failed[name])
        one = self._known[name]
        if one.program is None:
            raise self._failure(name, f"fails to compile: {one.error}")
        meter = Meter(PER_CALL)
        try:
            value = one.program.run({**self._scope, "variables": self, METER: meter})
        except CelError as error:
            raise self._failure(name, f"fails to evaluate: {error}") from None
        finally:
            self._budget.spend(min(meter.spent, PER_CALL))
        self[name] = value
        return value

    def _failure(self, name: str, why: str) -> CelError:
        from controlplane.apiserver.kinds.custom.cel import CelError

        self._failed[name] = f'composited variable "{name}" {why}'
        return CelError(self._failed[name])
