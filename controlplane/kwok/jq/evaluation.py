"""Evaluation of jq: a tree is walked with generators, for values and, where a path is asked for, for paths beside them.

Objects come with their numbers as floats, as Go's JSON decoder gives them; what a program computes of integers is an
integer. A program ends with an error after `STEPS` steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from controlplane.kwok.jq import operators
from controlplane.kwok.jq.names import check, names_of
from controlplane.kwok.jq.operators import JqError, order_key, truth
from controlplane.kwok.jq.syntax import Function, Node, parsed

__all__ = ["STEPS", "JqError", "Query", "query"]

STEPS: Final = 200_000
"""The most steps of one evaluation: some tenths of a second."""
LEVELS: Final = 150
"""The most calls inside calls."""

Path = tuple[Any, ...] | None
Found = Iterator[tuple[Any, Path]]
"""Values with their paths; the path is None where none is asked for."""


class _Break(Exception):
    def __init__(self, label: object) -> None:
        super().__init__()
        self.label = label


class _Run:
    """The remaining steps of one evaluation, and its time in nanoseconds."""

    __slots__ = ("left", "levels", "now")

    def __init__(self, now: int) -> None:
        self.left = STEPS
        self.levels = 0
        self.now = now

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise JqError(f"more than {STEPS} steps")


@frozen(eq=False)
class _Closure:
    """A function with the environment of its definition; a parameter is one without parameters."""

    function: Function
    env: _Env | None


@frozen(eq=False)
class _Env:
    """Variables and functions in scope: one name, its value, and what stands around it."""

    name: str
    value: Any
    outer: _Env | None
    run: _Run

    def find(self, name: str) -> Any:
        env: _Env | None = self
        while env is not None:
            if env.name == name:
                return env.value
            env = env.outer
        return None

    def bind(self, name: str, value: Any) -> _Env:
        return _Env(name, value, self, self.run)


@frozen(eq=False)
class Query:
    """A program that has been read."""

    source: str
    tree: Node

    def values(self, value: Any, now: int = 0) -> list[Any]:
        """Return all outputs for an input. Raises JqError, also when the program does not end."""
        env = _Env("", None, None, _Run(now))
        try:
            return [found for found, _ in _walk(self.tree, env, value, None)]
        except _Break:
            raise JqError("break") from None
        except RecursionError:
            raise JqError("too many levels") from None

    def outputs(self, value: Any, now: int = 0) -> list[Any] | None:
        """Return the outputs that are not null; None where the program failed, as `expression.Query` has it."""
        try:
            return [found for found in self.values(value, now) if found is not None]
        except JqError:
            return None


@lru_cache(maxsize=1024)
def query(source: str) -> Query:
    """Return the program of a text. Raises JqSyntaxError, also for functions and variables that there are not."""
    tree = parsed(source)
    check(tree, frozenset(("$ENV",)), dict.fromkeys((*_NATIVE, *_defined()), 1))
    return Query(source, tree)


# -- walking -------------------------------------------------------------------------------------


def _walk(node: Node, env: _Env, value: Any, path: Path) -> Found:
    env.run.spend()
    return _OPERATIONS[node[0]](node, env, value, path)


def _plain(node: Node, env: _Env, value: Any) -> Iterator[Any]:
    for found, _ in _walk(node, env, value, None):
        yield found


def _no_path(path: Path) -> None:
    if path is not None:
        raise JqError("invalid path expression")


def _const(node: Node, _env: _Env, _value: Any, path: Path) -> Found:
    if path is not None and node[1] is not None:
        raise JqError("invalid path expression")
    yield node[1], path


def _identity(_node: Node, _env: _Env, value: Any, path: Path) -> Found:
    yield value, path


def _pipe(node: Node, env: _Env, value: Any, path: Path) -> Found:
    for found, way in _walk(node[1], env, value, path):
        yield from _walk(node[2], env, found, way)


def _comma(node: Node, env: _Env, value: Any, path: Path) -> Found:
    yield from _walk(node[1], env, value, path)
    yield from _walk(node[2], env, value, path)


def _index(node: Node, env: _Env, value: Any, path: Path) -> Found:
    for found, way in _walk(node[1], env, value, path):
        for key in _plain(node[2], env, value):
            yield operators.index(found, key), None if way is None else (*way, key)


def _slice(node: Node, env: _Env, value: Any, path: Path) -> Found:
    for found, way in _walk(node[1], env, value, path):
        for last in (None,) if node[3] is None else _plain(node[3], env, value):
            for first in (None,) if node[2] is None else _plain(node[2], env, value):
                key = {"start": first, "end": last}
                yield operators.index(found, key), None if way is None else (*way, key)


def _iterate(node: Node, env: _Env, value: Any, path: Path) -> Found:
    for found, way in _walk(node[1], env, value, path):
        for key, part in operators.entries(found):
            env.run.spend()
            yield part, None if way is None else (*way, key)


def _try(node: Node, env: _Env, value: Any, path: Path) -> Found:
    steps = _walk(node[1], env, value, path)
    try:
        yield from steps
    except JqError as error:
        if env.run.left < 0:
            raise
        if node[2] is not None:
            for found, _ in _walk(node[2], env, error.value, None):
                yield found, path


def _bind(node: Node, env: _Env, value: Any, path: Path) -> Found:
    for found in _plain(node[1], env, value):
        for inner in _matched(node[2], env, found):
            yield from _walk(node[3], inner, value, path)


def _matched(patterns: tuple[Node, ...], env: _Env, value: Any) -> Iterator[_Env]:
    """The environments in which the first pattern that fits binds its names; names of others are null."""
    if len(patterns) > 1:
        for name in dict.fromkeys(name for each in patterns for name in names_of(each)):
            env = env.bind(name, None)
    for at, pattern in enumerate(patterns):
        try:
            found = list(_bound(pattern, env, value))
        except JqError:
            if at == len(patterns) - 1:
                raise
            continue
        yield from found
        return


def _bound(pattern: Node, env: _Env, value: Any) -> Iterator[_Env]:
    if pattern[0] == "name":
        yield env.bind(pattern[1], value)
        return
    if pattern[0] == "list":
        if value is not None and not isinstance(value, list):
            raise JqError(f"expected an array but got: {operators.told(value)}")
        yield from _bound_parts(
            [(("const", at), "", part) for at, part in enumerate(pattern[1])], env, value
        )
        return
    yield from _bound_parts(list(pattern[1]), env, value)


def _bound_parts(
    parts: list[tuple[Node, str, Node | None]], env: _Env, value: Any
) -> Iterator[_Env]:
    if not parts:
        yield env
        return
    key_node, variable, inner = parts[0]
    for key in _plain(key_node, env, value):
        found = operators.index(value, key)
        now = env.bind(variable, found) if variable else env
        for bound in (now,) if inner is None else _bound(inner, now, found):
            yield from _bound_parts(parts[1:], bound, value)


def _variable(node: Node, env: _Env, _value: Any, path: Path) -> Found:
    _no_path(path)
    yield {} if node[1] == "$ENV" else env.find(node[1]), None


def _negate(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    for found in _plain(node[1], env, value):
        if not operators.is_number(found):
            raise JqError(f"cannot negate: {operators.told(found)}")
        yield -found, None


def _binary(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    apply = operators.BINARY[node[1]]
    for right in _plain(node[3], env, value):
        for left in _plain(node[2], env, value):
            yield apply(left, right), None


def _and(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    for left in _plain(node[1], env, value):
        if not truth(left):
            yield False, None
        else:
            for right in _plain(node[2], env, value):
                yield truth(right), None


def _or(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    for left in _plain(node[1], env, value):
        if truth(left):
            yield True, None
        else:
            for right in _plain(node[2], env, value):
                yield truth(right), None


def _alternative(node: Node, env: _Env, value: Any, path: Path) -> Found:
    some = False
    try:
        for found, way in _walk(node[1], env, value, path):
            if truth(found):
                some = True
                yield found, way
    except JqError:
        if env.run.left < 0:
            raise
    if not some:
        yield from _walk(node[2], env, value, path)


def _if(node: Node, env: _Env, value: Any, path: Path) -> Found:
    for found in _plain(node[1], env, value):
        yield from _walk(node[2] if truth(found) else node[3], env, value, path)


def _array(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    yield list(_plain(node[1], env, value)), None


def _object(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    for made in _objects(node[1], env, value):
        yield made, None


def _objects(entries: tuple[tuple[Node, Node], ...], env: _Env, value: Any) -> Iterator[Any]:
    if not entries:
        yield {}
        return
    *rest, (key_node, value_node) = entries
    for made in _objects(tuple(rest), env, value):
        for key in _plain(key_node, env, value):
            if not isinstance(key, str):
                raise JqError(f"expected a string for object key but got: {operators.told(key)}")
            for part in _plain(value_node, env, value):
                yield {**made, key: part}


def _string(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    for text in _strings(node[1], env, value):
        yield text, None


def _strings(parts: tuple[Node, ...], env: _Env, value: Any) -> Iterator[str]:
    if not parts:
        yield ""
        return
    for text in _strings(parts[:-1], env, value):
        for part in _plain(parts[-1], env, value):
            yield text + part


def _format(node: Node, _env: _Env, value: Any, path: Path) -> Found:
    from controlplane.kwok.jq.texts import formatted

    _no_path(path)
    yield formatted(node[1], value), None


def _reduce(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _, source, patterns, start, update = node
    for state in _walk(start, env, value, path):
        now: tuple[Any, Path] | None = state
        for found in _plain(source, env, value):
            for inner in _matched(patterns, env, found):
                before, way = now if now is not None else (None, path)
                made = list(_walk(update, inner, before, way))
                now = made[-1] if made else None
        if now is not None:
            yield now


def _foreach(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _, source, patterns, start, update, *extract = node
    for state in _walk(start, env, value, path):
        for found in _plain(source, env, value):
            for inner in _matched(patterns, env, found):
                for made in _walk(update, inner, *state):
                    yield from _walk(extract[0], inner, *made) if extract else (made,)
                    state = made


def _label(node: Node, env: _Env, value: Any, path: Path) -> Found:
    mark = object()
    try:
        yield from _walk(node[2], env.bind(f"*{node[1]}", mark), value, path)
    except _Break as broken:
        if broken.label is not mark:
            raise


def _break(node: Node, env: _Env, _value: Any, _path: Path) -> Found:
    raise _Break(env.find(f"*{node[1]}"))
    yield  # a generator, as all are


def _with(node: Node, env: _Env, value: Any, path: Path) -> Found:
    function: Function = node[1]
    name = f"{function.name}/{len(function.params)}"
    yield from _walk(node[2], env.bind(name, _Closure(function, None)), value, path)


def _update(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    _, op, target, source = node
    if op == "|=":
        yield _modified(target, source, env, value), None
        return
    for right in _plain(source, env, value):
        changed = value
        for way in _paths(target, env, value):
            env.run.spend()
            if op == "=":
                made = right
            elif op == "//=":
                old = operators.get_path(changed, way)
                made = old if truth(old) else right
            else:
                made = operators.BINARY[op[0]](operators.get_path(changed, way), right)
            changed = operators.set_path(changed, way, made)
        yield changed, None


def _modified(target: Node, source: Node, env: _Env, value: Any) -> Any:
    """Set each path to the first output of the update; a path without an output is deleted."""
    gone = []
    changed = value
    for way in _paths(target, env, value):
        env.run.spend()
        for made in _plain(source, env, operators.get_path(changed, way)):
            changed = operators.set_path(changed, way, made)
            break
        else:
            gone.append(list(way))
    return operators.delete_paths(changed, gone)


def _paths(node: Node, env: _Env, value: Any) -> Iterator[tuple[Any, ...]]:
    for _, way in _walk(node, env, value, ()):
        yield way or ()


# -- calls ---------------------------------------------------------------------------------------


def _call(node: Node, env: _Env, value: Any, path: Path) -> Found:
    _, name, args = node
    full = f"{name}/{len(args)}"
    closure = env.find(full)
    if closure is None:
        native = _NATIVE.get(full)
        if native is not None:
            yield from native(args, env, value, path)
            return
        closure = _Closure(_defined()[full], None)
    run = env.run
    run.levels += 1
    try:
        if run.levels > LEVELS:
            raise JqError("too many levels")
        yield from _called(closure, full, args, env, value, path)
    finally:
        run.levels -= 1


def _called(
    closure: _Closure, full: str, args: tuple[Node, ...], env: _Env, value: Any, path: Path
) -> Found:
    function = closure.function
    if closure.env is not None:  # a parameter: its expression in the caller's environment
        yield from _walk(function.body, closure.env, value, path)
        return
    inner = _home(env, full).bind(full, closure)
    for name, arg in zip(function.params, args, strict=True):
        plain = name.removeprefix("$")
        inner = inner.bind(f"{plain}/0", _Closure(Function(plain, (), arg), env))
    taken = [
        (name, arg) for name, arg in zip(function.params, args, strict=True) if name.startswith("$")
    ]
    for bound in _with_values(taken, inner, env, value):
        yield from _walk(function.body, bound, value, path)


def _home(env: _Env, full: str) -> _Env:
    """The environment of a definition: from its own entry outwards, or an empty one for what comes with jq."""
    found: _Env | None = env
    while found is not None:
        if found.name == full:
            return found
        found = found.outer
    return _Env("", None, None, env.run)


def _with_values(
    taken: list[tuple[str, Node]], inner: _Env, env: _Env, value: Any
) -> Iterator[_Env]:
    if not taken:
        yield inner
        return
    (name, arg), *rest = taken
    for found in _plain(arg, env, value):
        bound = inner.bind(name, found).bind(
            f"{name[1:]}/0", _Closure(Function(name[1:], (), ("const", found)), inner)
        )
        yield from _with_values(rest, bound, env, value)


Native = Callable[[tuple[Node, ...], _Env, Any, Path], Found]


def _empty(_args: tuple[Node, ...], _env: _Env, _value: Any, _path: Path) -> Found:
    return iter(())


def _error(args: tuple[Node, ...], env: _Env, value: Any, _path: Path) -> Found:
    for found in _plain(args[0], env, value) if args else (value,):
        raise JqError(operators.told(found) if not isinstance(found, str) else found, found)
    yield from ()


def _path_of(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    for way in _paths(args[0], env, value):
        yield list(way), None


def _getpath(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
    for way in _plain(args[0], env, value):
        if not isinstance(way, list):
            raise JqError("getpath: expected an array of keys")
        try:
            found = operators.get_path(value, way)
        except JqError:
            found = None
        yield found, None if path is None else (*path, *way)


def _del(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    yield operators.delete_paths(value, [list(way) for way in _paths(args[0], env, value)]), None


def _range(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
    _no_path(path)
    nodes = (("const", 0), args[0], ("const", 1)) if len(args) == 1 else (*args, ("const", 1))[:3]
    for step in _plain(nodes[2], env, value):
        for end in _plain(nodes[1], env, value):
            for start in _plain(nodes[0], env, value):
                if not all(map(operators.is_number, (start, end, step))):
                    raise JqError("range: expected numbers")
                now = start
                while (now < end) if step > 0 else (now > end if step < 0 else False):
                    env.run.spend()
                    yield now, None
                    now += step


def _limit(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
    for most in _plain(args[0], env, value):
        left = int(most) if operators.is_number(most) else 0
        if left < 0:
            raise JqError("limit doesn't support negative count")
        if left == 0:
            continue
        for found in _walk(args[1], env, value, path):
            yield found
            left -= 1
            if not left:
                break


def _first(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
    for found in _walk(args[0], env, value, path):
        yield found
        return


def _now(_args: tuple[Node, ...], env: _Env, _value: Any, path: Path) -> Found:
    _no_path(path)
    yield env.run.now / 1e9, None


def _keyed(order: Callable[[list[tuple[Any, Any]]], Any]) -> Native:
    """A function over the elements of an array, each with the outputs of an expression."""

    def native(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
        _no_path(path)
        if not isinstance(value, list):
            raise JqError(f"expected an array but got: {operators.told(value)}")
        env.run.spend(len(value))
        pairs = [
            (order_key(list(_plain(args[0], env, each)) if args else each), each) for each in value
        ]
        yield order(pairs), None

    return native


def _simple(apply: Callable[..., Any]) -> Native:
    """A function of the input and of the values of its arguments, in all their combinations."""

    def native(args: tuple[Node, ...], env: _Env, value: Any, path: Path) -> Found:
        _no_path(path)
        env.run.spend(operators.weight(value))
        for values in _combinations(args, env, value):
            yield apply(value, *values), None

    return native


def _combinations(args: tuple[Node, ...], env: _Env, value: Any) -> Iterator[tuple[Any, ...]]:
    if not args:
        yield ()
        return
    for last in _plain(args[-1], env, value):
        for before in _combinations(args[:-1], env, value):
            yield (*before, last)


def _natives() -> dict[str, Native]:
    from controlplane.kwok.jq.library import KEYED, SIMPLE

    found: dict[str, Native] = {
        "empty/0": _empty,
        "error/0": _error,
        "error/1": _error,
        "path/1": _path_of,
        "getpath/1": _getpath,
        "del/1": _del,
        "range/1": _range,
        "range/2": _range,
        "range/3": _range,
        "limit/2": _limit,
        "first/1": _first,
        "now/0": _now,
    }
    for name, order in KEYED.items():
        found[name] = _keyed(order)
    for name, apply in SIMPLE.items():
        found[name] = _simple(apply)
    return found


@lru_cache(maxsize=1)
def _defined() -> dict[str, Function]:
    """The functions that are written in jq."""
    from controlplane.kwok.jq.library import WRITTEN

    found: dict[str, Function] = {}
    node = parsed(f"{WRITTEN} .")
    while node[0] == "with":
        function: Function = node[1]
        found[f"{function.name}/{len(function.params)}"] = function
        node = node[2]
    return found


_OPERATIONS: Final[dict[str, Callable[[Node, _Env, Any, Path], Found]]] = {
    "const": _const,
    "identity": _identity,
    "pipe": _pipe,
    "comma": _comma,
    "index": _index,
    "slice": _slice,
    "iterate": _iterate,
    "try": _try,
    "bind": _bind,
    "variable": _variable,
    "negate": _negate,
    "binary": _binary,
    "and": _and,
    "or": _or,
    "alternative": _alternative,
    "if": _if,
    "array": _array,
    "object": _object,
    "string": _string,
    "format": _format,
    "reduce": _reduce,
    "foreach": _foreach,
    "label": _label,
    "break": _break,
    "with": _with,
    "update": _update,
    "call": _call,
}
_NATIVE: Final = _natives()
