"""Places in a module's source where a concurrency mistake can be made, and the source with the mistake.

A place is found by what it is (operator, function, how-manieth in it), not by its line: an edit elsewhere in the
file does not move it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["OPERATORS", "REACHED", "Mutant", "marked", "mutants_of", "mutated"]

REACHED = "__mutant_reached__"
"""The function that a changed source calls, with the mutant's name, where a mistake is or could be made."""

IDENTITY = re.compile(
    r"(^|_)(uid|uids|resource_version|revision|generation|observed|deletion|deleted|terminating|"
    r"owner|controlled|controller_of|assumed|nominated|version|phase|finished|terminated|bound)(_|$)"
)
"""Words in a condition that tells one object, or one state of an object, from another."""
NOTIFICATIONS = frozenset({
    "notify", "wake", "signal", "fire", "activate", "enqueue", "add_after", "add_rate_limited", "enqueue_after",
    "move_all_to_active_or_backoff_queue", "requeue", "push", "broadcast", "wake_all",
})  # fmt: skip
RELEASES = frozenset({
    "forget", "unreserve", "forget_pod", "remove_pod", "delete_nominated", "release", "discard", "expire",
    "clear", "clear_pending", "rollback", "unassume", "done", "restore", "delete_expectations",
})  # fmt: skip
EXPECTATIONS = re.compile(r"(^|_)(expect|expectations|expected)(_|$)")


@frozen
class Mutant:
    """One mistake at one place.

    `place` is the place's number among those of its operator in its function. `line` is where it stands today, and
    `text` the statement there: for people only.
    """

    module: str
    function: str
    operator: str
    place: int
    line: int
    text: str

    @property
    def name(self) -> str:
        """The mutant's name, which finds it again."""
        return f"{self.module}:{self.function}:{self.operator}:{self.place}"


@frozen
class _Place:
    """A statement in a block, and what stands there with the mistake made."""

    block: list[ast.stmt]
    at: int
    length: int
    mistaken: Callable[[], list[ast.stmt]]


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return all mutants of a module, in the order of the source within each operator."""
    tree = ast.parse(source)
    return [mutant for mutant, _ in _all_places(module, tree)]


def marked(module: str, source: str) -> ast.Module:
    """Return the syntax tree of a module without a mistake, and a call of `REACHED` before each place for one."""
    tree = ast.parse(source)
    marks: dict[int, tuple[list[ast.stmt], list[tuple[int, str]]]] = {}
    for mutant, place in _all_places(module, tree):
        marks.setdefault(id(place.block), (place.block, []))[1].append((place.at, mutant.name))
    for block, its in marks.values():
        for at, name in sorted(its, reverse=True):
            block.insert(at, _mark(name))
    return ast.fix_missing_locations(tree)


def mutated(source: str, mutant: Mutant | str) -> ast.Module:
    """Return the syntax tree of a module with the mistake made, and a call of `REACHED` before it.

    Raises LookupError when the source has no such place.
    """
    name = mutant if isinstance(mutant, str) else mutant.name
    tree = ast.parse(source)
    for found, place in _all_places(name.partition(":")[0], tree):
        if found.name == name:
            stop = place.at + place.length
            place.block[place.at : stop] = [_mark(name), *place.mistaken()]
            return ast.fix_missing_locations(tree)
    raise LookupError(f"no place for the mutant {name}")


def _mark(name: str) -> ast.stmt:
    return ast.parse(f"{REACHED}({name!r})").body[0]


def _all_places(module: str, tree: ast.Module) -> Iterator[tuple[Mutant, _Place]]:
    """All places of a module with their mutants, in the order of the source within each operator."""
    for function, node in _functions(tree):
        for operator in OPERATORS:
            for number, place in enumerate(_places(node, operator)):
                line, text = place.block[place.at].lineno, _first_line(place)
                yield Mutant(module, function, operator, number, line, text), place


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions with their qualified names; the first of several with one name."""
    seen = set()

    def below(
        node: ast.AST, prefix: str
    ) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = prefix + child.name
                if name not in seen:
                    seen.add(name)
                    yield name, child
                yield from below(child, name + ".")
            elif isinstance(child, ast.ClassDef):
                yield from below(child, prefix + child.name + ".")
            elif isinstance(child, ast.If | ast.Try | ast.With):
                yield from below(child, prefix)

    yield from below(tree, "")


def _places(node: ast.FunctionDef | ast.AsyncFunctionDef, operator: str) -> Iterator[_Place]:
    find = OPERATORS[operator]
    for block in _blocks(node):
        for at in range(len(block)):
            yield from find(block, at)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a function, outermost first, without those of functions within it."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block
            for statement in block:
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield from _blocks(statement)
    for handler in getattr(node, "handlers", ()):
        yield from _blocks(handler)
    for case in getattr(node, "cases", ()):
        yield from _blocks(case)


def _first_line(place: _Place) -> str:
    return ast.unparse(place.block[place.at]).splitlines()[0][:100]


# -- operators -------------------------------------------------------------------------------------


def _guard_dropped(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A condition on an object's identity or state that leaves the function or the round: it never holds."""
    statement = block[at]
    if (
        not isinstance(statement, ast.If)
        or statement.orelse
        or not _speaks_of_identity(statement.test)
    ):
        return
    if isinstance(statement.body[-1], ast.Return | ast.Continue | ast.Raise | ast.Break):
        yield _Place(block, at, 1, lambda: [ast.Pass()])


def _condition_dropped(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A condition on identity or state before an effect: the effect happens whether it holds or not."""
    statement = block[at]
    if (
        not isinstance(statement, ast.If)
        or statement.orelse
        or not _speaks_of_identity(statement.test)
    ):
        return
    if not isinstance(statement.body[-1], ast.Return | ast.Continue | ast.Raise | ast.Break):
        yield _Place(block, at, 1, lambda: list(statement.body))


def _operand_dropped(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """One of several conditions, the one on identity or state, is left out."""
    statement = block[at]
    test = (
        statement.value if isinstance(statement, ast.Return) else getattr(statement, "test", None)
    )
    if not isinstance(test, ast.BoolOp):
        return
    for number, operand in enumerate(test.values):
        if not isinstance(operand, ast.Compare | ast.UnaryOp | ast.Attribute | ast.Call):
            continue
        if _speaks_of_identity(operand):
            rest = [each for other, each in enumerate(test.values) if other != number]
            fewer = rest[0] if len(rest) == 1 else ast.BoolOp(test.op, rest)
            yield _Place(block, at, 1, _with_test(statement, fewer))


def _with_test(statement: ast.stmt, test: ast.expr) -> Callable[[], list[ast.stmt]]:
    def make() -> list[ast.stmt]:
        if isinstance(statement, ast.Return):
            statement.value = test
        else:
            statement.test = test  # type: ignore[attr-defined]
        return [statement]

    return make


def _effects_swapped(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """Two effects, one after the other, in the other order."""
    if at + 1 >= len(block):
        return
    one, two = block[at], block[at + 1]
    simple = ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign
    if not (isinstance(one, simple) and isinstance(two, simple)):
        return
    if not (_yields(one) or _yields(two)) or not (_has_effect(one) and _has_effect(two)):
        return
    if (
        _only_a_point(one)
        or _only_a_point(two)
        or _assigned(one) & _read(two)
        or _assigned(two) & _read(one)
    ):
        return
    yield _Place(block, at, 2, lambda: [two, one])


def _notification_forgotten(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A task or a queue is not notified."""
    if _called(block[at]) in NOTIFICATIONS:
        yield _Place(block, at, 1, lambda: [ast.Pass()])


def _release_forgotten(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """Something held, assumed or counted is not given back."""
    if _called(block[at]) in RELEASES:
        yield _Place(block, at, 1, lambda: [ast.Pass()])


def _expectation_ignored(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A controller does not wait for its own writes to arrive in its cache."""
    called = _called(block[at])
    if called and EXPECTATIONS.search(called):
        yield _Place(block, at, 1, lambda: [ast.Pass()])
    statement = block[at]
    if isinstance(statement, ast.If) and any(
        EXPECTATIONS.search(each) or each == "satisfied" for each in _names(statement.test)
    ):
        leaves = isinstance(statement.body[-1], ast.Return | ast.Continue)
        yield _Place(block, at, 1, lambda: [ast.Pass()] if leaves else list(statement.body))


def _reread_skipped(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A fresh read before a write is left out where an older state is at hand."""
    statement = block[at]
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or not _yields(statement)
    ):
        return
    target = statement.targets[0]
    if isinstance(target, ast.Name) and target.id in _read(statement):
        yield _Place(block, at, 1, lambda: [ast.Pass()])


def _retry_given_up(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A failure that is raised again, or returned to be tried again, is swallowed."""
    statement = block[at]
    if isinstance(statement, ast.Try):
        for handler in statement.handlers:
            last = handler.body[-1]
            if isinstance(last, ast.Raise):
                yield _Place(
                    handler.body, len(handler.body) - 1, 1, lambda: [ast.Return(value=None)]
                )


def _write_repeated(block: list[ast.stmt], at: int) -> Iterator[_Place]:
    """A request to the API server is made twice, as by a retry after a lost answer."""
    statement = block[at]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Yield):
        called = getattr(getattr(statement.value.value, "func", None), "id", "")
        if called in {"Create", "Delete", "Update", "Patch", "UpdateStatus", "PatchStatus"}:
            yield _Place(block, at, 1, lambda: [statement, statement])


OPERATORS: Mapping[str, Callable[[list[ast.stmt], int], Iterator[_Place]]] = {
    "guard-dropped": _guard_dropped,
    "condition-dropped": _condition_dropped,
    "operand-dropped": _operand_dropped,
    "effects-swapped": _effects_swapped,
    "notification-forgotten": _notification_forgotten,
    "release-forgotten": _release_forgotten,
    "expectation-ignored": _expectation_ignored,
    "reread-skipped": _reread_skipped,
    "retry-given-up": _retry_given_up,
    "write-repeated": _write_repeated,
}


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def _speaks_of_identity(test: ast.expr) -> bool:
    return any(IDENTITY.search(name) for name in _names(test))


def _yields(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom | ast.Await) for each in ast.walk(node))


def _has_effect(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Yield | ast.YieldFrom | ast.Await | ast.Call)
        for each in ast.walk(node)
    )


def _only_a_point(node: ast.stmt) -> bool:
    """Return whether a statement does nothing but let other tasks run."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Yield)
        and not isinstance(node.value.value, ast.Call)
    )


def _called(node: ast.stmt) -> str:
    """The name of the function or method that a statement calls and does nothing else; "" otherwise."""
    if not isinstance(node, ast.Expr):
        return ""
    value = node.value
    while isinstance(value, ast.Yield | ast.YieldFrom | ast.Await) and value.value is not None:
        value = value.value
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _assigned(node: ast.stmt) -> set[str]:
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _read(node: ast.AST) -> set[str]:
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
