"""The README's picture: the page as it opens on the run of a published race. `python -m tests.page.picture`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from controlplane.page.recorded import recorded
from controlplane.page.report import report
from controlplane.races import catalogue
from controlplane.scenarios.search.exploring import Campaign
from tests.page.chromium import Browser, missing

RACE = "138324"
SIZE = (1280, 720)
TARGET = Path(__file__).parents[2] / "docs" / "report.png"


def main() -> int:
    if missing():
        print(missing(), file=sys.stderr)
        return 1
    race = catalogue.find(RACE)
    campaign = Campaign(race.unfixed())
    (finding, *_) = campaign.explore(race.schedules, seed=0).findings
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        campaign.under(finding.seed, "bare").save(folder)
        page = folder / "report.html"
        page.write_text(report([recorded(folder).model]), encoding="utf-8")
        browser = Browser(folder / "profile")
        try:
            browser.open(page, *SIZE)
            browser.drawn()
            browser.driver.save_screenshot(str(TARGET))
        finally:
            browser.close()
    print(f"written: {TARGET} ({TARGET.stat().st_size / 1000:.0f} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
