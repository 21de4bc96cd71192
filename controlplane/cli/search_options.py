"""The options of a search: how far it goes, and what is done with its results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from controlplane.cli.ci_formats import FORMATS
from controlplane.cli.options import Finite, format_option, grouped, out_option

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEDULES = 1000
CHECK_EVERY = 20
NO_LIMIT = 1 << 62
SHRINKS = 600


@frozen
class SearchLimits:
    """The limits of a search, and the number of its processes."""

    schedules: int | None
    seconds: float | None
    jobs: int | None
    dask: str | None
    check_determinism: bool
    failures: int
    keep_going: bool
    new: bool

    @property
    def most_schedules(self) -> int:
        """The number of schedules after which it ends."""
        return self.schedules or (SCHEDULES if self.seconds is None else NO_LIMIT)

    @property
    def most_failures(self) -> int | None:
        """The number of different failures after which it ends, None for no number."""
        return None if self.keep_going else self.failures

    @property
    def check_every(self) -> int:
        """The number of schedules of which one is run twice; 0 for none."""
        return CHECK_EVERY if self.check_determinism else 0


@frozen
class Results:
    """The handling of a search's results: where they are kept, and how they are shrunk and printed."""

    corpus: Path | None
    shrinks: int
    out: Path | None
    output_format: str


def search_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a search besides the scenario's; the function gets them as `limits` and `results`."""
    function = grouped("limits", SearchLimits)(grouped("results", Results)(function))
    for option in (
        format_option(*FORMATS),
        out_option("the finding's recording, log and objects"),
        click.option(
            "--shrink",
            "shrinks",
            type=click.IntRange(0),
            default=SHRINKS,
            show_default=True,
            help="Runs that making a finding short may take; 0 leaves it as it was found.",
        ),
        click.option(
            "--corpus",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Keep the search in a folder, and go on with the one that is there:"
            " counts, and every different failure with its recording and story.",
        ),
        click.option(
            "--new",
            is_flag=True,
            help="Leave known races out: search with the repairs in force of all that stand open.",
        ),
        click.option("--all", "keep_going", is_flag=True, help="Do not stop at a finding."),
        click.option(
            "--failures",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Stop after this number of different failures, not counting those of the corpus.",
        ),
        click.option(
            "--check-determinism",
            is_flag=True,
            help=f"Run one of {CHECK_EVERY} schedules twice, to see that only its choices decide.",
        ),
        click.option(
            "--dask",
            metavar="ADDRESS",
            help="Search on the workers of a Dask cluster (needs the extra 'dask').",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            help="Processes that search. [default: as many as there are cores]",
        ),
        click.option(
            "--seconds",
            type=Finite(min=0, min_open=True),
            metavar="S",
            help="Stop after this number of seconds of wall time.",
        ),
        click.option(
            "--schedules",
            type=click.IntRange(1),
            help=f"How many schedules to try at most. [default: {SCHEDULES}, without end with --seconds]",
        ),
    ):
        function = option(function)
    return function
