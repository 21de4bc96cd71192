"""Object templates: YAML files with the few forms of Go templates that upstream's files use.

`{{.Index}}`, `{{.Count}}`, and the functions Mod, DivideInt, AddInt, SubtractInt and MultiplyInt of
two of those or of numbers. A file without any is parsed once, however many objects are made of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from controlplane.api import yaml_text
from controlplane.api.tree import Tree
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ACTION = re.compile(r"\{\{-?((?:(?!\{\{|-?\}\}).)*+)-?\}\}")
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "Mod": lambda a, b: a % b,
    "DivideInt": lambda a, b: a // b,
    "AddInt": lambda a, b: a + b,
    "SubtractInt": lambda a, b: a - b,
    "MultiplyInt": lambda a, b: a * b,
}


class Template:
    """One template file. Raises UsageError when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        self._constant = None if "{{" in self._text else self._parse(self._text)

    def tree(self, index: int = 0, count: int = 1) -> Tree:
        """The object number `index` of `count`. The result is shared: not to be changed."""
        if self._constant is not None:
            return self._constant
        values = {".Index": index, ".Count": count}
        return self._parse(
            _ACTION.sub(lambda found: self._value(found[1].strip(), values), self._text)
        )

    def _value(self, action: str, values: dict[str, int]) -> str:
        words = action.split()
        try:
            if len(words) == 1:
                return str(_number(words[0], values))
            name, left, right = words
            return str(_FUNCTIONS[name](_number(left, values), _number(right, values)))
        except (KeyError, ValueError, ZeroDivisionError) as error:
            raise UsageError(
                f"{self.path}: {{{{ {action} }}}}: not a form of template known here"
                f" (.Index, .Count and {', '.join(_FUNCTIONS)})"
            ) from error

    def _parse(self, text: str) -> Tree:
        try:
            tree = yaml_text.load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"{self.path}: {' '.join(str(error).split())}") from error
        if not isinstance(tree, dict) or not tree.get("kind") or not tree.get("apiVersion"):
            raise UsageError(f"{self.path}: expected one object with apiVersion and kind")
        if tree.get("spec", True) is None:
            tree["spec"] = {}
        return tree


def _number(word: str, values: dict[str, int]) -> int:
    return values[word] if word.startswith(".") else int(word)
