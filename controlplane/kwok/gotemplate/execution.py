"""Execution of templates: values of JSON are walked as Go's text/template walks them.

Numbers of the object are `Number`s, texts as the object has them (Go's json.Number): they are true unless empty and
equal no integer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from controlplane.kwok.gotemplate import printing
from controlplane.kwok.gotemplate.syntax import Command, Node, Pipe, Template, TemplateError, parsed

__all__ = ["render"]

STEPS: Final = 100_000
"""The most nodes and commands of one execution."""
LONGEST: Final = 4 << 20
"""The most characters of a result."""

Functions = Mapping[str, Callable[..., Any]]


class _Jump(Exception):
    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


@lru_cache(maxsize=512)
def _template(text: str, names: frozenset[str]) -> Template:
    return parsed(text, names)


def check(text: str, functions: Collection[str]) -> None:
    """Refuse a template that cannot be parsed, given its functions besides the library's. Raises TemplateError."""
    from controlplane.kwok.gotemplate.library import FUNCTIONS

    _template(text, frozenset((*FUNCTIONS, *functions, "and", "or")))


def render(text: str, data: Any, functions: Functions) -> str:
    """Return a template's output for data (`printing.numbers` has made its numbers texts).

    Raises TemplateError, in Go's words.
    """
    from controlplane.kwok.gotemplate.library import FUNCTIONS

    known = {**FUNCTIONS, **functions}
    template = _template(text, frozenset((*known, "and", "or")))
    run = _Execution(template, known, data)
    try:
        run.walk(template.body, data, [("$", data)])
    except RecursionError:
        raise run.fail("exceeded maximum template depth") from None
    return "".join(run.out)


class _Execution:
    def __init__(self, template: Template, functions: Functions, data: Any) -> None:
        self._template = template
        self._functions = functions
        self._data = data
        self._steps = STEPS
        self._size = 0
        self._line = 1
        self.out: list[str] = []

    def fail(self, text: str) -> TemplateError:
        return TemplateError(f'template: _:{self._line}: executing "_": {text}')

    def _spend(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise self.fail(f"more than {STEPS} steps")

    def _write(self, text: str) -> None:
        self._size += len(text)
        if self._size > LONGEST:
            raise self.fail("the result is too large")
        self.out.append(text)

    # -- nodes -----------------------------------------------------------------------------------

    def walk(self, nodes: tuple[Node, ...], dot: Any, scope: list[tuple[str, Any]]) -> None:
        mark = len(scope)
        for node in nodes:
            self._line = node.line
            self._spend()
            self._node(node, dot, scope)
        del scope[mark:]

    def _node(self, node: Node, dot: Any, scope: list[tuple[str, Any]]) -> None:
        if node.op == "text":
            self._write(node.text)
        elif node.op == "action" and node.pipe is not None:
            value = self._pipe(node.pipe, dot, scope)
            if not node.pipe.variables:
                self._write(printing.shown(value))
        elif node.op == "range":
            self._range(node, dot, scope)
        elif node.op in ("if", "with") and node.pipe is not None:
            mark = len(scope)
            value = self._pipe(node.pipe, dot, scope)
            if printing.truth(value):
                self.walk(node.body, value if node.op == "with" else dot, scope)
            else:
                self.walk(node.otherwise, dot, scope)
            del scope[mark:]
        elif node.op == "template":
            self._call_template(node, dot, scope)
        else:
            raise _Jump(node.op)

    def _call_template(self, node: Node, dot: Any, scope: list[tuple[str, Any]]) -> None:
        body = self._template.defined.get(node.text)
        if body is None:
            raise self.fail(f'template "{node.text}" not defined')
        value = None if node.pipe is None else self._pipe(node.pipe, dot, scope)
        self.walk(body, value, [("$", value)])

    def _range(self, node: Node, dot: Any, scope: list[tuple[str, Any]]) -> None:
        assert node.pipe is not None
        pipe, mark = node.pipe, len(scope)
        value = self._commands(pipe, dot, scope)
        items = self._items(value)
        for key, each in items:
            bound = (key, each) if len(pipe.variables) == 2 else (each,)
            inner = len(scope)
            for name, part in zip(pipe.variables, bound, strict=False):
                self._bind(scope, name, part, assigns=pipe.assigns)
            try:
                self.walk(node.body, each, scope)
            except _Jump as jump:
                if jump.word == "break":
                    break
            finally:
                del scope[inner:]
        if not items:
            self.walk(node.otherwise, dot, scope)
        del scope[mark:]

    def _items(self, value: Any) -> list[tuple[Any, Any]]:
        if value is None:
            return []
        if isinstance(value, Mapping):
            return [(key, value[key]) for key in sorted(value)]
        if isinstance(value, list):
            return list(enumerate(value))
        if isinstance(value, int) and not isinstance(value, bool):
            if value > STEPS:
                raise self.fail(f"more than {STEPS} steps")
            return [(number, number) for number in range(value)]
        raise self.fail(f"range can't iterate over {printing.shown(value)}")

    # -- pipelines -------------------------------------------------------------------------------

    def _bind(self, scope: list[tuple[str, Any]], name: str, value: Any, *, assigns: bool) -> None:
        if assigns:
            for at in range(len(scope) - 1, -1, -1):
                if scope[at][0] == name:
                    scope[at] = (name, value)
                    return
        scope.append((name, value))

    def _pipe(self, pipe: Pipe, dot: Any, scope: list[tuple[str, Any]]) -> Any:
        value = self._commands(pipe, dot, scope)
        for name in pipe.variables:
            self._bind(scope, name, value, assigns=pipe.assigns)
        return value

    def _commands(self, pipe: Pipe, dot: Any, scope: list[tuple[str, Any]]) -> Any:
        piped: tuple[Any, ...] = ()
        for command in pipe.commands:
            self._spend()
            piped = (self._command(command, dot, scope, piped),)
        return piped[0]

    def _command(
        self, command: Command, dot: Any, scope: list[tuple[str, Any]], piped: tuple[Any, ...]
    ) -> Any:
        (kind, value, fields), *rest = command.operands
        if kind != "function":
            if rest or piped:
                raise self.fail(f"can't give argument to non-function {printing.shown(value)}")
            if kind == "nil":
                raise self.fail("nil is not a command")
            return self._operand(kind, value, fields, dot, scope)
        if value in ("and", "or"):
            return self._until(value == "or", rest, dot, scope, piped)
        args = [self._operand(each[0], each[1], each[2], dot, scope) for each in rest]
        return self._called(value, [*args, *piped])

    def _until(
        self,
        wanted: bool,
        rest: list[Any],
        dot: Any,
        scope: list[tuple[str, Any]],
        piped: tuple[Any, ...],
    ) -> Any:
        """Evaluate arguments up to the first that decides."""
        value: Any = None
        if not rest and not piped:
            raise self.fail(
                f"wrong number of args for {'or' if wanted else 'and'}: want at least 1 got 0"
            )
        for each in rest:
            value = self._operand(each[0], each[1], each[2], dot, scope)
            if printing.truth(value) is wanted:
                return value
        return piped[0] if piped else value

    def _called(self, name: str, args: list[Any]) -> Any:
        try:
            return self._functions[name](*args)
        except TemplateError:
            raise
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            ArithmeticError,
            AttributeError,
        ) as error:
            raise self.fail(f"error calling {name}: {error}") from None

    def _operand(
        self, kind: str, value: Any, fields: tuple[str, ...], dot: Any, scope: list[tuple[str, Any]]
    ) -> Any:
        if kind == "dot":
            found = dot
        elif kind == "variable":
            found = next(each for name, each in reversed(scope) if name == value)
        elif kind == "pipe":
            found = self._pipe(value, dot, scope)
        elif kind == "function":
            found = self._called(value, [])
        else:
            found = value
        for name in fields:
            if found is None:
                return None
            if not isinstance(found, Mapping):
                raise self.fail(f"can't evaluate field {name} in type {printing.go_type(found)}")
            found = found.get(name)
        return found
