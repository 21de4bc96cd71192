"""One real run for all tests of the page: the first schedule that breaks race 138324, and the same one with the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.page.recorded import Recorded, recorded
from controlplane.races import catalogue
from controlplane.scenarios.search.exploring import Campaign
from tests.races.findings import finding


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of the run that breaks and of the one that does not."""
    folder = tmp_path_factory.mktemp("race")
    race = catalogue.find("138324")
    campaign, found = finding("138324")
    broken, fixed = folder / "broken", folder / "fixed"
    campaign.under(found.seed, "bare").save(broken)
    Campaign(race.repaired()).under(found.seed, "bare").save(fixed)
    return broken, fixed


@pytest.fixture(scope="session")
def broken(runs: tuple[Path, Path]) -> Recorded:
    return recorded(runs[0])
