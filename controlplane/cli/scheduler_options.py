"""Options of the scheduler that `run` and `serve` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

__all__ = ["scheduler_options"]


def scheduler_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --scheduler-config, --scheduler-plugin and --explain-scheduling, in this order."""
    added = (
        click.option(
            "--scheduler-config",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).",
        ),
        click.option(
            "--scheduler-plugin",
            "scheduler_plugins",
            multiple=True,
            metavar="MODULE",
            help="Load scheduler plugins from this module or .py file; the configuration enables them."
            " Repeatable.",
        ),
        click.option(
            "--explain-scheduling",
            is_flag=True,
            help="Log what each scheduler plugin said, and write it to the pods' annotations.",
        ),
    )
    for option in reversed(added):
        function = option(function)
    return function
