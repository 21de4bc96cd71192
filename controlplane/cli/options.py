"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from controlplane.gates import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def seed_option(default: int = 0) -> Decorator:
    """`--seed N`."""
    return click.option(
        "--seed",
        default=default,
        show_default=True,
        help="Seed of the strategy that answers choices.",
    )


def format_option() -> Decorator:
    """`--format table|json`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="What to print: tables for people, JSON for programs.",
    )


def gate_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--release`, `--without-fix`, `--fix`."""
    for option in (
        click.option(
            "--fix",
            "variants",
            multiple=True,
            metavar="N[=VARIANT]",
            help="Put a fix in force that the release does not have, or choose another form of one.",
        ),
        click.option(
            "--without-fix",
            "without",
            multiple=True,
            metavar="N",
            help="Turn a fix gate off; repeatable.",
        ),
        click.option(
            "--release", default=LATEST, show_default=True, help="Emulate this minor release."
        ),
    ):
        function = option(function)
    return function


def feature_gates_option() -> Decorator:
    """`--feature-gates A=true,B=false`."""
    return click.option(
        "--feature-gates",
        multiple=True,
        metavar="A=true,B=false",
        help="Feature gates of the scheduler that differ from the release's defaults.",
    )


def driver_option(default: str) -> Decorator:
    """`--driver trio|bare`."""
    return click.option(
        "--driver",
        type=click.Choice(["trio", "bare"]),
        default=default,
        show_default=True,
        help="Who steps the tasks; both give the same trace.",
    )
