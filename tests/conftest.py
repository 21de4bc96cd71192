"""What all tests share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from actors import collector
from actors.sharing import CHECK_FOOTPRINTS, CHECK_SHARING, Budget
from controlplane.cli.main import _run
from controlplane.cluster import VALUES

# Tests start hundreds of processes, and each would compile all modules anew (1.2 s of 2.5 s).
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The same examples every time: a test that fails on one run in ten is no test. To look for new ones:
# pytest --hypothesis-profile=random
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("fixed")


def pytest_collection_finish() -> None:
    """What tests import stays, and the worlds that they make go soon: the collector need not look at them often."""
    collector.leave_alone()
    gc.set_threshold(collector.YOUNG_OF_SHORT_RUNS, *gc.get_threshold()[1:])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--check-worlds",
        action="store_true",
        help="search the first world of every test for what actors share, and watch what its steps touch",
    )


@pytest.fixture(autouse=True)
def worlds_are_checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test's first world, in CI: no mutable object that two actors reach, and no step that touches more than it
    says. That takes a third of the time of the quick tests, and they run without it.
    """
    if not request.config.getoption("--check-worlds"):
        yield
        return
    sharing = CHECK_SHARING.set(Budget(worlds=1, values=VALUES))
    footprints = CHECK_FOOTPRINTS.set(Budget(worlds=1))
    yield
    CHECK_FOOTPRINTS.reset(footprints)
    CHECK_SHARING.reset(sharing)


# readline, which pytest loads, tells the process behind Python's back how wide its terminal is: tables of
# commands, here and in programs that tests start, would be as narrow.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
    os.unsetenv(name)


@pytest.fixture
def logs(monkeypatch, capsys):
    """Asks `controlplane logs`: exit status, standard output, standard error."""

    def ask(*arguments):
        monkeypatch.setattr(sys, "argv", ["controlplane", "logs", *map(str, arguments)])
        status = _run()
        said = capsys.readouterr()
        return status, said.out, said.err

    return ask
