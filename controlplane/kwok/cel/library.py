"""Functions that expressions of KWOK may call: times, random numbers, quantities, and usages in metrics.

Upstream: pkg/utils/cel/{default,funcs,quantity}.go and pkg/kwok/metrics/evaluator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from attrs import frozen

from controlplane.api.go_integers import divide
from controlplane.api.quantity import Quantity, QuantityError
from controlplane.api.times import SECOND
from controlplane.apiserver.kinds.custom.cel.conversions import to_int
from controlplane.apiserver.kinds.custom.cel.operators import OPERATORS, OVERLOAD, failed
from controlplane.apiserver.kinds.custom.cel.signatures import Library, standard
from controlplane.apiserver.kinds.custom.cel.tree import Unsigned
from controlplane.kwok.cel.objects import FIELDS, GoObject

__all__ = ["METRICS", "STAGES", "Context", "Usages"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Usages(Protocol):
    """The use of resources that metrics ask for."""

    def used(self, resource: str, place: tuple[str, ...], *, cumulative: bool) -> float:
        """Return the use of a resource by a node (its name), a pod (namespace, name) or a container (and its name).

        With `cumulative` its sum over time, in units times seconds.
        """
        ...

    def started_containers(self, node: str) -> int:
        """Return how many containers have been started on a node."""
        ...


@frozen
class Context:
    """The surroundings of one evaluation.

    Attributes:
        now: the time, in nanoseconds since 1970.
        draw: gives random numbers from 0 to 1.
        usages: the use of resources; None in stages, which cannot ask for it.
    """

    now: int
    draw: Callable[[], float]
    usages: Usages | None = None


# -- times -----------------------------------------------------------------------------------------


def _now(context: Context) -> datetime:
    return _EPOCH + timedelta(microseconds=context.now // 1000)


def _unix_second(_context: Context, time: datetime) -> float:
    """Return the seconds since 1970 of nanoseconds as 64 bits hold them: those of the zero time overflow."""
    return ((to_int(time - _EPOCH) + 2**63) % 2**64 - 2**63) / SECOND


def _since_second(context: Context, thing: GoObject) -> float:
    created: datetime = thing.get("metadata").get("creationTimestamp")
    return (context.now - to_int(created - _EPOCH)) / SECOND


# -- quantities ------------------------------------------------------------------------------------


def _quantity(_context: Context, text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise failed(str(error)) from None


def _of_float(value: float) -> Quantity:
    return Quantity.new_milli(int(value * 1e3))


def _times(amount: Quantity, factor: Any) -> Quantity:
    if isinstance(factor, float):
        return _of_float(amount.approximate_float() * factor)
    return Quantity.new_milli(amount.milli_value() * factor)


def _part(amount: Quantity, divisor: Any) -> Quantity:
    if isinstance(divisor, float):
        if not divisor:
            raise failed("division by zero")
        return _of_float(amount.approximate_float() / divisor)
    if not divisor:
        raise failed("internal error: runtime error: integer divide by zero")
    return Quantity.new_milli(divide(amount.milli_value(), divisor))


_WITH_QUANTITY: Final[Mapping[str, Callable[[Quantity, Quantity], Any]]] = {
    "_+_": lambda a, b: a + b,
    "_-_": lambda a, b: a - b,
    "_<_": lambda a, b: a < b,
    "_<=_": lambda a, b: a <= b,
    "_>_": lambda a, b: a > b,
    "_>=_": lambda a, b: a >= b,
}
_WITH_NUMBER: Final = {"_*_": _times, "_/_": _part}


def _operator(name: str) -> Callable[..., Any]:
    """Return an operator that takes quantities, too."""
    usual = OPERATORS[name]

    def run(_context: Context, a: Any, b: Any) -> Any:
        if not isinstance(a, Quantity):
            return usual(a, b)
        if name in _WITH_QUANTITY and isinstance(b, Quantity):
            return _WITH_QUANTITY[name](a, b)
        number = isinstance(b, int | float | Unsigned) and not isinstance(b, bool)
        if name in _WITH_NUMBER and number:
            return _WITH_NUMBER[name](a, b)
        raise failed(OVERLOAD)

    return run


def _negative(_context: Context, value: Any) -> Any:
    return -value if isinstance(value, Quantity) else OPERATORS["-_"](value)


# -- usages ----------------------------------------------------------------------------------------


def _usage(cumulative: bool) -> Callable[..., float]:
    def run(context: Context, thing: GoObject, resource: str, *container: str) -> float:
        assert context.usages is not None
        meta = thing.get("metadata")
        place = (meta.get("name"),)
        if thing.type_name == "v1.Pod":
            place = (meta.get("namespace"), *place, *container)
        return context.usages.used(resource, place, cumulative=cumulative)

    return run


def _started(context: Context, node: Any) -> float:
    assert context.usages is not None
    if isinstance(node, str):
        return context.usages.started_containers(node)
    return float(context.usages.started_containers(node.get("metadata").get("name")))


_FUNCTIONS: Final = """
Now() timestamp; Rand() double; SinceSecond(v1.Node) double; SinceSecond(v1.Pod) double
UnixSecond(timestamp) double; Quantity(string) cel.Quantity
_+_(cel.Quantity, dyn) cel.Quantity; _-_(cel.Quantity, dyn) cel.Quantity; -_(cel.Quantity) cel.Quantity
_*_(cel.Quantity, dyn) cel.Quantity; _/_(cel.Quantity, dyn) cel.Quantity
_<_(cel.Quantity, dyn) int; _<=_(cel.Quantity, dyn) int; _>_(cel.Quantity, dyn) int; _>=_(cel.Quantity, dyn) int
_[_](cel.ResourceList, dyn) dyn; size(cel.ResourceList) int; @in(dyn, cel.ResourceList) bool
"""
"""Relations of quantities are declared as integers, so no condition takes them as they stand: upstream's mistake."""
_METHODS: Final = """
v1.Node.SinceSecond() double; v1.Pod.SinceSecond() double; timestamp.UnixSecond() double
string.Quantity() cel.Quantity
"""
_METRIC_FUNCTIONS: Final = """
now() timestamp; StartedContainersTotal(string) int; StartedContainersTotal(v1.Node) double
startedContainersTotal(string) int; startedContainersTotal(v1.Node) double
"""
_METRIC_METHODS: Final = """
v1.Pod.Usage(string, string) double; v1.Pod.Usage(string) double; v1.Node.Usage(string) double
v1.Pod.CumulativeUsage(string, string) double; v1.Pod.CumulativeUsage(string) double
v1.Node.CumulativeUsage(string) double
string.StartedContainersTotal() int; v1.Node.StartedContainersTotal() double
string.startedContainersTotal() int; v1.Node.startedContainersTotal() double
"""
_OWN: Final[Mapping[str, Callable[..., Any]]] = {
    "Now": _now,
    "Rand": lambda context: context.draw(),
    "SinceSecond": _since_second,
    "UnixSecond": _unix_second,
    "Quantity": _quantity,
    "-_": _negative,
    **{name: _operator(name) for name in (*_WITH_QUANTITY, *_WITH_NUMBER)},
}
_OWN_METRICS: Final[Mapping[str, Callable[..., Any]]] = {
    **_OWN,
    "now": _now,
    "Usage": _usage(cumulative=False),
    "CumulativeUsage": _usage(cumulative=True),
    "StartedContainersTotal": _started,
    "startedContainersTotal": _started,
}
STAGES: Final[Library] = standard(_FUNCTIONS, _METHODS, FIELDS, _OWN)
METRICS: Final[Library] = standard(
    _FUNCTIONS + _METRIC_FUNCTIONS, _METHODS + _METRIC_METHODS, FIELDS, _OWN_METRICS
)
