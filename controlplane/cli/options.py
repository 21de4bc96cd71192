"""From declared options to the command line; and the options of commands themselves."""

from __future__ import annotations

import math
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.names import Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controlplane.scenarios.engine.allowed_code import AllowedCode
    from controlplane.scenarios.engine.option import Option
    from controlplane.scenarios.engine.scenario import Scenario

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

LOG_LEVELS = ("trace", "debug", "info", "warning")


def grouped(name: str, group: type) -> Decorator:
    """Hand the options that are named like the fields of a class over as one value of it, the argument `name`."""
    from attrs import fields_dict

    fields = tuple(fields_dict(group))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **values: Any) -> Any:
            value = group(**{field: values.pop(field) for field in fields})
            return function(*arguments, **{name: value}, **values)

        return call

    return decorate


class Finite(click.FloatRange):
    """A number in a range; neither nan nor infinity, of which no range knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        return found


class Declared(click.ParamType[Any]):
    """The type of a declared option: what its declaration accepts."""

    def __init__(self, option: Option) -> None:
        self.name = option.metavar or option.type.__name__
        self._option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The checked value; a wrong one is a UsageError, which names the option."""
        option = self._option
        if not isinstance(value, str):
            return value
        made: Any = value if option.reads is None else option.reads(value)
        if option.convert is None and option.type in (int, float):
            try:
                made = option.type(value)
            except ValueError:
                word = "whole number" if option.type is int else "number"
                self.fail(f"{value!r} is not a valid {word}", param, ctx)
        return option.check((made,))[0] if option.many else option.check(made)


def parameter(option: Option, default: Any, told: str = "") -> click.Parameter:
    """A declared option on the command line. What is not given there arrives as None, and is left to its default."""
    names = [f"--{option.name}", option.key]
    shown = told or ("" if default in (None, ()) else str(default))
    if option.type is bool:
        switch = f"--{option.name}/--no-{option.name}" if default is not False else names[0]
        return click.Option(
            [switch, option.key],
            default=None,
            is_flag=True,
            help=_help(option, told or ("on" if default else "")),
        )
    return click.Option(
        names,
        type=Choice(option.values) if option.values else Declared(option),
        multiple=option.many,
        metavar=option.metavar or None,
        help=_help(option, shown),
    )


def _help(option: Option, shown: str) -> str:
    return f"{option.help} [default: {shown}]" if shown else option.help


def parameters(
    scenario: Scenario, options: Iterable[Option] | None = None
) -> Sequence[click.Parameter]:
    """The scenario's options on the command line, the common ones included (or those given)."""
    chosen = scenario.all_options if options is None else options
    return [
        parameter(option, scenario.default(option), scenario.told.get(option.key, ""))
        for option in chosen
    ]


def asked_of(scenario: Scenario, values: dict[str, Any]) -> dict[str, Any]:
    """Take out of `values` what was asked of the scenario's options."""
    asked = {}
    for option in scenario.all_options:
        value = values.pop(option.key, None)
        if value not in (None, ()):
            asked[option.key] = value
    return asked


def declared_options(scenario: Scenario, but: Sequence[Option] = ()) -> Decorator:
    """The options of a command that always runs the same scenario; `but` those it takes otherwise."""
    made = parameters(scenario, [each for each in scenario.all_options if each not in but])

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        params: list[click.Parameter] = function.__dict__.setdefault("__click_params__", [])
        params.extend(reversed(made))
        return function

    return decorate


class ScenarioCommand(click.Command):
    """A command whose first argument names a scenario, whose options it then takes too.

    Options of every scenario may stand before the name, those of this one come after it. `find` is called with the
    name, before the rest is parsed.
    """

    def __init__(self, *args: Any, find: Callable[[str], Scenario], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._find = find

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look for the name first: from there on its options are known."""
        name = self._name_in(ctx, args)
        if name is not None:
            ctx.meta["scenario"] = self._find(name)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own and the scenario's."""
        own = super().get_params(ctx)
        scenario = ctx.meta.get("scenario")
        if scenario is None:
            return own
        *rest, last = own  # --help stays last
        taken = {parameter.name for parameter in own}
        return [*rest, *(p for p in parameters(scenario) if p.name not in taken), last]

    def _name_in(self, ctx: click.Context, args: Sequence[str]) -> str | None:
        """The first word that is neither an option (of the command, or common to all scenarios) nor its value."""
        from controlplane.scenarios.engine.common_options import COMMON

        valued = {
            name
            for param in super().get_params(ctx)
            if isinstance(param, click.Option) and not param.is_flag and not param.count
            for name in param.opts
        }
        valued.update(f"--{option.name}" for option in COMMON if option.type is not bool)
        words = iter(args)
        for word in words:
            if word in valued:
                next(words, None)
            elif not word.startswith("-"):
                return word
        return None

    def invoke(self, ctx: click.Context) -> Any:
        """Hand the callback the scenario, and what was asked of its options as one map."""
        scenario = ctx.meta["scenario"]
        ctx.params["scenario"] = scenario
        ctx.params["asked"] = asked_of(scenario, ctx.params)
        return super().invoke(ctx)


_ALLOWED = "controlplane.allow_code"


def allow_code_option() -> Decorator:
    """`--allow-code PATH`, for commands that open recordings; `allowed_code` answers what was given."""

    def keep(ctx: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> None:
        ctx.meta[_ALLOWED] = (*ctx.meta.get(_ALLOWED, ()), *names)

    return click.option(
        "--allow-code",
        multiple=True,
        metavar="PATH",
        expose_value=False,
        callback=keep,
        help="Let a recording run the Python code of this file, folder or module. Repeatable.",
    )


def allowed_code() -> AllowedCode:
    """The Python code that this command's recordings may run."""
    from controlplane.scenarios.engine.allowed_code import AllowedCode

    return AllowedCode(click.get_current_context().meta.get(_ALLOWED, ()))


def format_option(*more: str) -> Decorator:
    """`--format table|json`, and `more` formats, which are those of CI systems."""
    ci = "; the others for CI systems" if more else ""
    return click.option(
        "--format",
        "output_format",
        type=Choice(["table", "json", *more]),
        default="table",
        show_default=True,
        help=f"What to print: tables for people, JSON for programs{ci}.",
    )


def driver_option(default: str) -> Decorator:
    """`--driver trio|bare`."""
    return click.option(
        "--driver",
        type=Choice(["trio", "bare"]),
        default=default,
        show_default=True,
        help="Who steps the tasks; both give the same trace.",
    )


def out_option(what: str = "log.jsonl, run.rec and objects.yaml") -> Decorator:
    """`--out DIR`."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help=f"Leave {what} there.",
    )


def show_secrets_option() -> Decorator:
    """`--show-secrets`."""
    return click.option(
        "--show-secrets",
        is_flag=True,
        help="Leave the data of Secrets and tokens readable in what --out leaves, not redacted.",
    )


def log_level_option(default: str = "trace", *, off: bool = False) -> Decorator:
    """`--log-level LEVEL`."""
    return click.option(
        "--log-level",
        type=Choice([*LOG_LEVELS, "off"] if off else LOG_LEVELS),
        default=default,
        show_default=True,
        help="What is kept of the event log; trace is everything.",
    )


def replay_option() -> Decorator:
    """`--replay RUN.REC`."""
    return click.option(
        "--replay",
        type=click.Path(path_type=Path),
        metavar="RUN.REC",
        help="Repeat a recorded run of the same files.",
    )
