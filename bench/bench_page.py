"""The page: how long until a run of 10,000 and of 50,000 events is drawn, frames a second while sliding, file sizes.

Measured in a headless Chromium without a graphics card. "Shown" is the time from the opening of the file to
the second frame with the run in it. Sliding goes through the whole run in as many frames as fit.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from actors import EventLog
from actors.strategies.random_walk import RandomWalk
from bench.harness import Row, seconds
from controlplane.page.recorded import recorded
from controlplane.page.report import report
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from tests.page.chromium import Browser, missing

SHOP = Path(__file__).parents[1] / "examples" / "shop.yaml"
RUNS = {"10,000 events": (5, 60), "50,000 events": (20, 1600)}
"""Nodes, and virtual seconds: a run of the shop that leaves at least so many events."""
VIEWS = ("diagram", "cluster", "results", "charts")
FRAMES = 120
SLIDE = """
    const [view, frames, done] = arguments;
    document.getElementById(`tab-${view}`).click();
    const slider = document.querySelector(".slider");
    const last = Number(slider.max);
    let at = 0, begun = 0;
    const frame = () => {
      if (at === 2) begun = performance.now();
      if (at === frames) { done((frames - 2) / ((performance.now() - begun) / 1000)); return; }
      slider.value = String(Math.round((last * at) / frames));
      slider.dispatchEvent(new Event("input"));
      at += 1;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
"""


def left(folder: Path, nodes: int, until: int) -> Path:
    """What a run of the shop leaves."""
    scenario = loading.from_module("controlplane.scenarios.manifest_run")
    plan = plan_of(scenario, files=(str(SHOP),), nodes=nodes, until=until)
    run = Execution(plan, RandomWalk(5), log=EventLog())
    run.execute("bare")
    run.save(folder)
    return folder


def measured(browser: Browser, name: str, page: Path, repeat: int) -> list[Row]:
    """Figures of one page."""
    shown = []
    for _ in range(repeat):
        browser.open(page)
        shown.append(browser.run("return performance.getEntriesByName('shown')[0].startTime"))
    found = [Row(f"page, {name}, shown after", "ms", tuple(shown))]
    for view in VIEWS:
        frames = tuple(browser.wait(SLIDE, view, FRAMES) for _ in range(repeat))
        found.append(Row(f"page, {name}, sliding, {view}", "frames/s", frames))
    return found


def rows(repeat: int) -> list[Row]:
    found = []
    if missing():
        print(f"page: only files are measured: {missing()}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = {}
        for what, (nodes, until) in RUNS.items():
            place = left(folder / what, nodes, until)
            taken, run = seconds(lambda place=place: recorded(place))
            assert not run.model.lacks, run.model.lacks
            page = pages[what] = folder / f"{len(pages)}.html"
            page.write_text(report([run.model]), encoding="utf-8")
            found += [
                Row(f"page, {what}: how many", "events", (float(len(run.model)),)),
                Row(f"page, {what}: repeated and watched in", "s", (taken,)),
                Row(f"page, {what}: file", "MB", (page.stat().st_size / 1e6,)),
            ]
        if not missing():
            browser = Browser(folder / "profile")
            try:
                for what, page in pages.items():
                    found += measured(browser, what, page, repeat)
            finally:
                browser.close()
    return found
