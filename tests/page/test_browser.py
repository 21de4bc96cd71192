"""The page as a person has it: opened from a file in a real Chromium, looked at, searched, slid and clicked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from controlplane.api.redaction import redacted
from controlplane.cli.main import cli
from controlplane.logs.reading import Line
from controlplane.page.comparing import difference
from controlplane.page.model import Model
from controlplane.page.recorded import recorded
from controlplane.page.report import report
from tests.page.chromium import Browser, missing
from tests.page.made import whole

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]
AXE = Path(__file__).parents[2] / ".tools" / "axe-core" / "axe.min.js"
VIEWS = ("diagram", "cluster", "results", "charts")
SIZES = ((1280, 800), (768, 900), (390, 780))
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def page(broken, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report([broken.model]), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    yield browser
    assert browser.complaints() == []


def step_now(browser: Browser) -> int:
    return int(browser.run("return Number(document.querySelector('.slider').value)"))


def test_the_page_opens_at_the_read_that_went_wrong(opened, broken) -> None:
    stale = broken.model.findings["stale"][0]
    assert step_now(opened) == stale["step"]
    assert opened.text("#side-story-body .sentence") == broken.model.findings["sentence"]
    card = opened.text("#side-story-body .stale-card")
    assert f"step {stale['step']} {stale['actor']}/{stale['task']} read {stale['obj']}" in card
    assert "It was about another object of that name" in card
    assert stale["used"] in card
    assert opened.text(".verdict") == "violated"


def test_the_story_of_a_violation_is_told_whole(opened, broken) -> None:
    shown = opened.texts("#side-story-body .entry .entry-step")
    assert shown == [str(step) for step, *_ in broken.model.findings["entries"]]
    assert len(opened.texts("#side-story-body .stale-tag")) >= 2


def test_a_click_leads_from_an_event_to_its_causes(opened, broken) -> None:
    sent = {line.step: line.cause[0] for line in broken.log if line.event == "message"}
    told = [step for step, *_ in broken.model.findings["entries"]]
    step = max(each for each in told if each in sent)
    opened.run(
        "document.querySelectorAll('#side-story-body .entry')[arguments[0]].click()",
        told.index(step),
    )
    opened.drawn()
    assert step_now(opened) == step
    assert opened.text("#side-step-body h3") == f"Step {step}"
    caused = [int(each) for each in opened.texts("#side-step-body ol .entry-step")]
    assert caused[0] == sent[step]
    opened.click("#side-step-body ol .entry")
    assert step_now(opened) == caused[0]


def test_a_click_on_a_mark_of_the_diagram_selects_its_step(opened, broken) -> None:
    """The step at which the page opens has a ring: its place on the canvas follows from the axis."""
    opened.press("f")
    spot = opened.run("""
        const canvas = document.querySelector(".diagram-canvas").getBoundingClientRect();
        const labels = [...document.querySelectorAll(".lane-label")];
        const lane = labels.find((each) => each.textContent.includes("apiserver")).getBoundingClientRect();
        return [canvas.left, canvas.width, lane.top + lane.height * 0.5 + Math.min(6 + (lane.height - 38) * 0.35, 16)];
    """)
    from selenium.webdriver.common.action_chains import ActionBuilder

    wrote = broken.model.findings["stale"][0]["overtaken_by"]
    last = broken.model.step
    first, end = -0.015 * last, last * 1.025 + 1
    x = spot[0] + (wrote - first) / (end - first) * spot[1]
    pointer = ActionBuilder(opened.driver)
    pointer.pointer_action.move_to_location(round(x), round(spot[2])).click()
    pointer.perform()
    opened.drawn()
    assert opened.text("#side-step-body h3") == f"Step {wrote}"


def test_a_search_finds_what_the_log_has(opened, broken) -> None:
    wanted = [
        line for line in broken.log if line.event == "apiserver.write" and "web-0" in line.obj
    ]
    opened.press("/", "event:apiserver.write object:web-0")
    assert opened.text(".found-count") == f"{len(wanted)} events"
    assert opened.texts("#side-found-body .entry-step") == [str(line.step) for line in wanted]
    opened.press("\ue007")  # Enter
    now = step_now(opened)
    assert now in {line.step for line in wanted}


def test_filters_narrow_a_search(opened, broken) -> None:
    faults = sum(1 for line in broken.log if line.level in {"warning", "error"})
    opened.type('.filters select[aria-label="Level"]', "warning")
    opened.until("return document.querySelector('.found-count').textContent")
    assert opened.text(".found-count").split()[0] == str(faults)


def test_keys_step_through_the_run(opened) -> None:
    at = step_now(opened)
    opened.press("\ue014")  # right
    assert step_now(opened) == at + 1
    opened.press("\ue012", "\ue012")  # left
    assert step_now(opened) == at - 1
    opened.press("\ue011")  # home
    assert step_now(opened) == 0
    opened.press("\ue010")  # end
    assert step_now(opened) == int(
        opened.run("return Number(document.querySelector('.slider').max)")
    )
    opened.press("?")
    assert opened.run("return document.querySelector('dialog').open")
    opened.press("\ue00c")
    assert not opened.run("return document.querySelector('dialog').open")
    opened.press("2")
    assert opened.run("return !document.getElementById('view-cluster').hidden")


def test_the_axis_can_be_virtual_time(opened, broken) -> None:
    opened.click("#axis")
    assert opened.text("#axis") == "Axis: time"
    top = int(opened.run("return Number(document.querySelector('.slider').max)"))
    opened.slide(top)
    assert opened.text(".where").startswith(f"step {broken.model.step} of")
    opened.slide(0)
    shown = opened.text(".where")
    t0 = max(line.step for line in broken.log if line.t == 0)
    assert shown == f"step {t0} of {broken.model.step}, 0 s"


@pytest.mark.parametrize("part", [0.3, 0.6, 1.0])
def test_an_object_is_shown_as_it_was_at_the_step(opened, broken, part) -> None:
    step = round(broken.model.step * part)
    read = whole(broken.model)
    objects = {key: tree for key, tree in read.objects(step).items() if "/pods/" in key}
    opened.click("#tab-cluster")
    opened.slide(step)
    names = opened.texts(".names .name span:first-child")
    assert sorted(names) == sorted(key.removeprefix("/registry/pods/") for key in objects)
    for at, name in enumerate(names):
        opened.run("document.querySelectorAll('.names .name')[arguments[0]].click()", at)
        opened.drawn()
        opened.run(
            "[...document.querySelectorAll('.object-tools button')].find((each) => each.textContent === 'YAML').click()"
        )
        opened.drawn()
        text = "\n".join(line[2:] for line in opened.text(".yaml pre").splitlines())
        stored = json.loads(json.dumps(redacted(objects[f"/registry/pods/{name}"])))
        stored["metadata"].pop("managedFields", None)
        assert yaml.safe_load(text) == stored


def test_a_difference_shows_what_a_write_changed(opened, broken) -> None:
    (bound, *_) = [
        line
        for line in broken.log
        if line.event == "apiserver.write" and line.data["verb"] == "create pods/binding"
    ]
    opened.click("#tab-cluster")
    opened.slide(bound.step)
    opened.run(
        "const all = [...document.querySelectorAll('.names .name')];"
        " all.find((each) => each.textContent.startsWith(arguments[0])).click()",
        bound.obj.removeprefix("Pod/"),
    )
    opened.drawn()
    added = opened.texts(".yaml .added")
    assert any(f"nodeName: {bound.data['node']}" in line for line in added)
    assert f"v{bound.rv}" in opened.text(
        ".names .current"
    ) or "written at this step" in opened.text(".names .current")


def test_news_on_its_way_is_what_is_written_and_not_yet_heard(opened, broken) -> None:
    read = whole(broken.model)
    rows = read.rows["versions"]
    wrote = {
        (read.texts[obj], rv): step
        for obj, rv, step in zip(rows["obj"], rows["rv"], rows["step"], strict=True)
    }
    told = [
        (line.step, wrote.get((line.obj, line.rv), line.step))
        for line in broken.log
        if line.event == "informer.told"
    ]
    at, most = max(
        ((step, sum(1 for heard, made in told if made <= step < heard)) for step in wrote.values()),
        key=lambda each: each[1],
    )
    opened.click("#tab-cluster")
    opened.slide(at)
    assert most > 1
    assert sum(map(int, opened.texts(".news td:nth-child(3)"))) == most


def test_an_object_leads_to_who_read_and_wrote_it(opened, broken) -> None:
    opened.click("#tab-cluster")
    opened.run("document.querySelector('.object-tools > button:last-child').click()")
    opened.drawn()
    assert opened.run("return !document.getElementById('view-diagram').hidden")
    (_, name) = opened.run("return document.getElementById('query').value").split(":")
    about = sum(1 for line in broken.log if name.lower() in line.obj.lower())
    assert opened.text(".found-count").split()[0] == str(about)


def test_the_scheduler_leaves_the_lost_pod_in_flight(opened, broken) -> None:
    opened.click("#tab-cluster")
    opened.press("\ue010")
    (flying,) = [each for each in opened.texts(".queue") if each.startswith("in flight")]
    assert flying.startswith("in flight1")


def test_a_step_looks_the_same_from_whichever_side_one_comes(opened, broken) -> None:
    opened.click("#tab-cluster")
    steps = [step for step, *_ in broken.model.findings["entries"]]

    def seen() -> str:
        return opened.text(".queues") + opened.text(".caches") + opened.text(".nodes")

    there = {}
    for step in steps:
        opened.slide(step)
        there[step] = seen()
    for step in reversed(steps):
        opened.slide(step)
        assert seen() == there[step]
    assert len(set(there.values())) > 3


def test_an_attempt_is_shown_with_its_scores(opened, broken) -> None:
    opened.click("#tab-results")
    (chosen, *_) = [line for line in broken.log if line.event == "scheduler.assumed"]
    opened.slide(chosen.step)
    assert opened.text(".attempt h2") == chosen.obj.removeprefix("Pod/")
    tables = opened.run("return document.querySelectorAll('.attempt table.plugins').length")
    assert tables == 3
    sums = opened.texts(".attempt table.plugins:last-of-type .chosen td.number")
    final = chosen.data["scores"][chosen.data["node"]]
    assert str(sum(final.values())) in sums


def test_a_wide_number_of_a_step_and_a_long_name_of_a_plugin_are_shown_whole(
    opened, broken
) -> None:
    opened.click("#tab-results")
    (chosen, *_) = [line for line in broken.log if line.event == "scheduler.assumed"]
    opened.slide(chosen.step)
    cut = (
        "return [...document.querySelectorAll('.plugins thead th')]"
        ".filter((each) => each.scrollWidth > each.clientWidth + 1).length"
    )
    assert opened.run(cut) == 0
    lines = (
        "const place = document.querySelector('.attempt-row .entry-step');"
        " place.textContent = '1234567';"
        " return place.getClientRects().length + place.scrollWidth - place.clientWidth"
    )
    assert opened.run(lines) == 1


def test_charts_say_their_values_at_the_step(opened, broken) -> None:
    opened.click("#tab-charts")
    opened.press("\ue010")
    titles = opened.texts(".chart figcaption")
    assert {"Pods by phase", "Scheduler's queues", "CPU", "Memory"} <= set(titles)
    pods = [key for key in whole(broken.model).objects(broken.model.step) if "/pods/" in key]
    counted = opened.texts(".chart:first-child .value b")
    assert sum(map(int, counted)) == len(pods)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_no_view_is_blank_or_wider_than_the_window(browser, page, size) -> None:
    browser.open(page, *size)
    for view in VIEWS:
        browser.click(f"#tab-{view}")
        assert browser.colours() > 25, view
        wide = browser.run("return document.documentElement.scrollWidth")
        assert wide <= size[0], view
    assert browser.complaints() == []


def test_views_keep_their_place_when_the_step_changes(opened) -> None:
    """No layout jumps: header, tabs, side and foot stay where they are."""
    script = """return ["header", ".tabs", ".side", ".view", ".timeline", ".track"].map((each) => {
        const box = document.querySelector(each).getBoundingClientRect();
        return [box.left, box.top, box.width, box.height].map(Math.round).join();
    })"""
    before = opened.run(script)
    for view in VIEWS:
        opened.click(f"#tab-{view}")
        for step in (1, 60, 120):
            opened.slide(step)
            assert opened.run(script) == before, (view, step)


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: dev.py check fetches it by npm")
@pytest.mark.parametrize(
    ("theme", "size"), [("light", SIZES[0]), ("dark", SIZES[0]), ("light", SIZES[2])]
)
def test_the_checker_of_accessibility_finds_nothing_serious(opened, page, theme, size) -> None:
    opened.open(page, *size)
    opened.run("document.documentElement.dataset.theme = arguments[0]", theme)
    opened.run(AXE.read_text(encoding="utf-8"))
    found = []
    for view in VIEWS:
        opened.click(f"#tab-{view}")
        told = opened.wait(
            "axe.run(document).then((found) => arguments[0]({ bad: found.violations, good: found.passes.length }))"
        )
        assert told["good"] > 15
        found += [
            (view, each["id"], node["html"][:120], node["failureSummary"][:200])
            for each in told["bad"]
            if each["impact"] in {"serious", "critical"}
            for node in each["nodes"][:3]
        ]
    assert found == []


def test_two_runs_stand_side_by_side(browser, runs, broken, tmp_path) -> None:
    fixed = recorded(runs[1])
    parting = difference(broken, fixed)
    path = tmp_path / "two.html"
    path.write_text(report([broken.model, fixed.model], parting), encoding="utf-8")
    browser.open(path)
    assert browser.run("return document.querySelectorAll('.diagram').length") == 2
    assert step_now(browser) == parting["step"]
    story = browser.text("#side-story-body")
    assert "Where the two runs part" in story
    assert parting["sides"][0]["what"] in story
    browser.run("document.querySelectorAll('.head .switch button')[1].click()")
    browser.drawn()
    assert browser.text(".verdict") == fixed.model.run["verdict"]
    assert browser.complaints() == []


def test_hostile_names_are_text(browser, tmp_path) -> None:
    model = Model(name=HOSTILE)
    obj, tree = (
        f"Pod/default/{HOSTILE}",
        {"kind": "Pod", "metadata": {"name": HOSTILE, "annotations": {HOSTILE: HOSTILE}}},
    )
    data = {"verb": "create pods", "code": 201, "by": HOSTILE, "reason": HOSTILE}
    lines = (
        Line(0, 0, "world", "world", "log", level="debug", data={"scenario": HOSTILE}),
        Line(1, 0, HOSTILE, HOSTILE, "recv"),
        Line(
            1,
            0,
            HOSTILE,
            HOSTILE,
            "apiserver.write",
            level="info",
            obj=obj,
            uid="u",
            rv=7,
            data=data,
        ),
        Line(2, 0, HOSTILE, HOSTILE, "start", cause=(1,)),
        Line(
            2,
            0,
            HOSTILE,
            HOSTILE,
            "scheduler.failed",
            level="info",
            obj=obj,
            uid="u",
            data={"reason": HOSTILE, "message": HOSTILE, "attempt": 1},
        ),
        Line(
            2,
            0,
            HOSTILE,
            HOSTILE,
            "verdict",
            level="info",
            data={"verdict": "violated", "reason": HOSTILE},
        ),
    )
    for line in lines:
        model.add_line(line)
    pending = {
        **tree,
        "status": {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": HOSTILE, "message": HOSTILE}
            ],
        },
    }
    node = {
        "kind": "Node",
        "metadata": {"name": HOSTILE},
        "spec": {"taints": [{"key": HOSTILE, "effect": HOSTILE}]},
    }
    model.add_version(1, "/registry/pods/default/x", 7, obj, "u", pending)
    model.add_version(1, "/registry/nodes/x", 8, f"Node/{HOSTILE}", "n", node)
    model.add_queued(1, "unschedulable", obj, "u", there=True, attempts=1, plugins=[HOSTILE])
    model.add_cache(1, HOSTILE, HOSTILE, 3, 2)
    model.findings = {
        "sentence": HOSTILE,
        "entries": [[1, HOSTILE, HOSTILE]],
        "stale": [],
        "unordered": [],
    }
    path = tmp_path / "hostile.html"
    path.write_text(report([model]), encoding="utf-8")
    browser.open(path)
    for view in VIEWS:
        browser.click(f"#tab-{view}")
        browser.slide(1)
        browser.slide(2)
    browser.click("#side-story-body .entry")
    browser.press("/", "onerror")
    assert HOSTILE in browser.text("#side-found-body")
    browser.click("#tab-cluster")
    assert HOSTILE in browser.text(".cluster")
    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.title") == f"{HOSTILE} - controlplane"
    assert browser.complaints() == []


def test_a_log_alone_is_shown_and_says_what_it_lacks(browser, runs, tmp_path) -> None:
    path = tmp_path / "log.html"
    path.write_text(report([recorded(runs[0] / "log.jsonl").model]), encoding="utf-8")
    browser.open(path)
    assert "no recording (run.rec)" in browser.text("#side-story-body")
    for view in VIEWS:
        browser.click(f"#tab-{view}")
    assert "no recording (run.rec)" in browser.text(".cluster .note")
    assert browser.complaints() == []


# ---------------------------------------------------------------------- quota


@pytest.fixture(scope="session")
def queues(tmp_path_factory) -> Path:
    """The page of three teams that share a cohort."""
    folder = tmp_path_factory.mktemp("queues")
    files = Path(__file__).parents[2] / "examples" / "kueue"
    found = CliRunner().invoke(
        cli,
        [
            "run",
            str(files / "fair-sharing.yaml"),
            *("--with", "kueue", "--kueue-config", str(files / "fair-sharing-config.yaml")),
            *("--nodes", "3", "--out", str(folder / "run")),
        ],
    )
    assert found.exit_code == 0, found.output
    page = folder / "report.html"
    page.write_text(report([recorded(folder / "run").model]), encoding="utf-8")
    return page


def test_the_tree_of_cohorts_shows_who_has_what_quota_at_each_step(browser, queues) -> None:
    browser.open(queues)
    browser.press("2")
    used: list[list[str]] = []
    for part in (0.02, 0.25, 0.45, 1):
        browser.run(
            """
            const slider = document.querySelector(".slider");
            slider.value = Math.round(slider.max * arguments[0]);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            """,
            part,
        )
        browser.drawn()
        used.append(browser.texts(".cohort-head .bar-text"))
    assert used[0] == []
    assert used[1] == used[3] == ["0 of 9 reserved"]
    assert len(used[2]) == 1 and re.fullmatch("[1-9] of 9 reserved", used[2][0])
    assert browser.texts(".cohort .node-head .link") == ["red", "green", "blue"]
    assert browser.complaints() == []
