"""Options: declared once, by the code that reads them.

The command line, its help, the recording's header, the cluster's configuration and the
documentation are all made from the one declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.errors import UsageError, either, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting

TYPES = (bool, int, float, str)
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _type_is_known(_option: Option, _attribute: Any, value: type) -> None:
    if value not in TYPES:
        raise UsageError(f"an option's type is bool, int, float or str, not {value!r}")


def _name_is_plain(_option: Option, _attribute: Any, value: str) -> None:
    if not value or not all(part.isalnum() and part.islower() for part in value.split("-")):
        raise UsageError(f"option {value!r}: a name is lower-case words with dashes between them")


ANY: Final = "any"
"""The value of a varied option that leaves it to the search."""
_ENDLESS: Final = 1e18
"""Numbers from here on, infinities and NaN mean nothing to any option."""


@frozen
class Option:
    """One option of a scenario.

    `name` is its name on the command line, without the dashes in front; in Python and in a
    recording's header it is `key`. `default` None means that the scenario decides. `choices` (for
    str; or a function that gives them when they are asked for) or `low` and `high` bound the value;
    `many` makes it repeatable: a tuple. `convert` turns the text into what the run takes, raising
    ValueError with what was expected. `sets` names the field of `ClusterConfig` that takes the
    value as it is; `apply` is for options that change it otherwise: it returns the fields that change,
    by name, given the configuration as the scenario and the options before it make it, and the setting.
    `parse` turns the value of such an option into what `apply` needs, once, before anything runs:
    `setting.parsed` holds it by key. Both are called only for an option that has a value, and raise UsageError.

    `reads` is for an option whose value is the content of a file: it returns the content, given the name that the
    command line has. A recording holds the content and never has a file read.

    `varied` is for an option with `choices`: its value `any`, which is then the default, lets a search go through
    the choices in turn, one for each piece of the search. A single run takes the first.

    The content of the files that `names_files` or `names_code` mark belongs to the run: a recording
    knows its digest. Python code (`names_code`) is run for a recording only if that is allowed.
    """

    name: str = field(validator=_name_is_plain)
    help: str = field(default="", kw_only=True)
    type: type = field(default=str, kw_only=True, validator=_type_is_known)
    default: Any = field(default=None, kw_only=True)
    choices: tuple[str, ...] | Callable[[], tuple[str, ...]] = field(default=(), kw_only=True)
    low: float | None = field(default=None, kw_only=True)
    high: float | None = field(default=None, kw_only=True)
    many: bool = field(default=False, kw_only=True)
    metavar: str = field(default="", kw_only=True)
    convert: Callable[[str], Any] | None = field(default=None, kw_only=True)
    sets: str = field(default="", kw_only=True)
    parse: Callable[[Setting], Any] | None = field(default=None, kw_only=True)
    apply: Callable[[ClusterConfig, Setting], Mapping[str, Any]] | None = field(
        default=None, kw_only=True
    )
    reads: Callable[[str], str] | None = field(default=None, kw_only=True)
    names_files: bool = field(default=False, kw_only=True)
    names_code: bool = field(default=False, kw_only=True)
    varied: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.varied and self.default is None:
            object.__setattr__(self, "default", ANY)

    @property
    def key(self) -> str:
        """The name as Python writes it."""
        return self.name.replace("-", "_")

    @property
    def values(self) -> tuple[str, ...]:
        """The allowed values; () if any value is allowed."""
        return (ANY, *self.variants) if self.varied else self.variants

    @property
    def variants(self) -> tuple[str, ...]:
        """The choices, without the one that leaves it to the search."""
        return self.choices() if callable(self.choices) else self.choices

    def check(self, value: Any) -> Any:
        """The value, as a run takes it. Raises UsageError, in one line."""
        if self.many:
            if isinstance(value, str) or not hasattr(value, "__iter__"):
                raise self._error(value, "several values")
            return tuple(self._check(each) for each in value)
        return None if value is None else self._check(value)

    def _check(self, value: Any) -> Any:
        if self.convert is not None and isinstance(value, str):
            try:
                value = self.convert(value)
            except ValueError as error:
                raise self._error(value, str(error)) from error
            return value
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if self.type is str and hasattr(value, "__fspath__"):
            value = str(value)
        wanted = (self.type,) if self.convert is None else (self.type, int)
        if type(value) not in wanted or (self.type is float and not abs(value) < _ENDLESS):
            raise self._error(value, WORDS[self.type])
        if self.type is str and "\0" in value:
            raise self._error(value, "text without NUL")
        if self.choices and value not in self.values:
            near = nearest(value, self.values) if isinstance(value, str) else []
            meant = f"; did you mean {either(near)}?" if near else ""
            raise self._error(value, f"{either([*self.values])}{meant}")
        if self.low is not None and value < self.low:
            raise self._error(value, f"at least {self.low:g}")
        if self.high is not None and value > self.high:
            raise self._error(value, f"at most {self.high:g}")
        return value

    def _error(self, value: Any, expected: str) -> UsageError:
        return UsageError(f"--{self.name} {shown(value)}: expected {expected}")

    def to_json(self, default: Any) -> dict[str, Any]:
        """For programs; `default` as the scenario has it."""
        told: dict[str, Any] = {
            "name": self.name,
            "type": self.type.__name__,
            "default": default,
            "help": self.help,
        }
        if self.choices:
            told["choices"] = list(self.values)
        return told
