"""The page of a running cluster in a real Chromium: it goes on, is paused and changed, and can be left at a step."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.page.chromium import Browser, missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]
AXE = Path(__file__).parents[2] / ".tools" / "axe-core" / "axe.min.js"
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
PODS = "/api/v1/namespaces/default/pods"
POD = """apiVersion: v1
kind: Pod
metadata:
  name: NAME
  annotations: {hostile: HOSTILE}
spec: {containers: [{name: main, image: web}]}
"""


class Cluster:
    """`controlplane serve --ui`, as a process."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "controlplane",
                "serve",
                "--nodes",
                "2",
                "--ui",
                "--no-tls",
                "--kubeconfig",
                str(folder / "kubeconfig"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        lines = iter(self.process.stdout.readline, "")
        page = next(line for line in lines if line.startswith("page:"))
        found = re.match(r"page: ((http://[^/]+)\S+#token=(\S+))", page)
        assert found is not None
        self.page, self.root, self.token = found.groups()

    def ask(self, path: str, tree: dict | None = None) -> tuple[int, dict]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if tree is None else json.dumps(tree).encode()
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.root + path, headers=headers, data=data)
            ) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def create(self, tree: dict) -> tuple[int, dict]:
        """The answer to a dry run of a creation."""
        version = tree["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        of = {
            each["kind"]: each for each in self.ask(root)[1]["resources"] if "/" not in each["name"]
        }
        found = of[tree["kind"]]
        place = "/namespaces/default" if found["namespaced"] else ""
        return self.ask(f"{root}{place}/{found['name']}?dryRun=All", tree)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("serve"))
    yield made
    made.process.terminate()
    made.process.communicate(timeout=20)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


def show(browser: Browser, cluster: Cluster, *size: int) -> None:
    """The page anew, with its controls."""
    browser.driver.get("about:blank")
    browser.open(cluster.page, *size)
    browser.until("return Boolean(document.querySelector('.live .pausing'))")


@pytest.fixture
def opened(browser, cluster):
    show(browser, cluster)
    yield browser
    assert browser.complaints() == []


def press(browser: Browser, text: str, within: str = "body") -> None:
    """Press the button that says so."""
    browser.until(
        "const found = [...document.querySelectorAll(arguments[0] + ' button')]"
        ".find((each) => each.textContent === arguments[1] && each.offsetParent);"
        " if (found) found.click(); return Boolean(found)",
        bool,
        within,
        text,
    )
    browser.drawn()


def write(browser: Browser, text: str) -> None:
    browser.type(".sheet textarea", text)


def closed(browser: Browser) -> None:
    browser.until("return !document.querySelector('dialog.sheet').open")


def look_at(browser: Browser, name: str) -> None:
    """Choose a pod in the cluster view."""
    browser.click("#tab-cluster")
    script = (
        "const found = [...document.querySelectorAll('.names .name')]"
        ".find((each) => each.textContent.startsWith(arguments[0]));"
        " if (found) found.click(); return Boolean(found)"
    )
    browser.until(script, bool, f"default/{name}")
    browser.drawn()


def test_the_token_is_out_of_sight_and_kept_for_the_tab(opened, cluster):
    assert opened.run("return location.hash") == ""
    assert cluster.token not in opened.run("return document.documentElement.outerHTML")
    opened.open(f"{cluster.root}/controlplane/ui/")
    assert opened.text(".verdict") == "running"
    opened.run(
        "location.hash = '#token=' + arguments[0]", cluster.token
    )  # opened again in the same tab
    opened.until("return location.hash === '' && document.body.dataset.ready === 'yes'")


def test_a_wrong_token_is_asked_for_again(browser, cluster):
    browser.driver.get("about:blank")
    browser.driver.get(f"{cluster.root}/controlplane/ui/#token=wrong")
    assert browser.until("return document.querySelector('form.token .refusal')?.textContent")
    browser.complaints()  # the browser says of each 401 that it was one
    browser.type("form.token input", cluster.token)
    press(browser, "Look")
    browser.until("return document.body.dataset.ready")
    assert browser.text(".verdict") == "running"


def test_the_page_goes_on_with_the_cluster(opened):
    before = opened.run("return Number(document.querySelector('.slider').max)")
    opened.until(
        "return Number(document.querySelector('.slider').max) > arguments[0]", bool, before
    )


def test_time_is_paused_stepped_and_given_another_speed(opened, cluster):
    press(opened, "Pause")
    opened.until("return document.querySelector('.pausing').textContent === 'Resume'")
    paused = cluster.ask("/controlplane/time")[1]
    assert paused["paused"]
    opened.type('select[aria-label="Let virtual time go on by"]', "10")
    opened.until("return document.querySelector('.pausing').textContent === 'Resume'")
    now = paused
    while now["virtual"] < paused["virtual"] + 10:
        now = cluster.ask("/controlplane/time")[1]
    assert now["virtual"] == pytest.approx(paused["virtual"] + 10, abs=1e-6)
    opened.type('select[aria-label="Speed of virtual time"]', "10")
    opened.press("p")
    opened.until("return document.querySelector('.pausing').textContent === 'Pause'")
    assert cluster.ask("/controlplane/time")[1]["speed"] == 10


def test_objects_are_created_edited_and_deleted_through_the_api(opened, cluster):
    opened.press("c")
    write(opened, POD.replace("NAME", "web").replace("HOSTILE", json.dumps(HOSTILE)))
    press(opened, "Apply", ".sheet")
    closed(opened)
    code, pod = cluster.ask(f"{PODS}/web")
    assert code == 200
    assert pod["metadata"]["annotations"]["hostile"] == HOSTILE
    look_at(opened, "web")
    press(opened, "YAML")
    assert HOSTILE.split('"')[0] in opened.text(".yaml")
    assert "managedFields" not in opened.text(".yaml")
    press(opened, "managedFields")
    assert "managedFields" in opened.text(".yaml")
    press(opened, "managedFields")
    assert opened.run("return document.querySelectorAll('img').length") == 0
    assert "taken" not in opened.run("return document.title")

    press(opened, "Edit", ".live")
    text = opened.until("return document.querySelector('.sheet textarea')?.value")
    assert "managedFields" not in text
    write(opened, text.replace("  annotations:\n", "  labels:\n    seen: here\n  annotations:\n"))
    press(opened, "Save", ".sheet")
    closed(opened)
    assert cluster.ask(f"{PODS}/web")[1]["metadata"]["labels"] == {"seen": "here"}

    press(opened, "Delete", ".live")
    press(opened, "Delete", ".sheet")
    opened.until(
        "return document.querySelector('.live-status').textContent.includes('deletion asked for')"
    )
    pod = cluster.ask(f"{PODS}/web")[1]
    assert pod.get("code") == 404 or pod["metadata"]["deletionTimestamp"]


def test_every_template_is_taken_by_the_server(opened, cluster):
    press(opened, "New", ".live")
    opened.until("return document.querySelectorAll('.sheet select option').length > 50")
    kinds = opened.run(
        "return [...document.querySelectorAll('.sheet select option')].map((each) => each.value)"
    )
    own = [each for each in kinds if "/" not in each]
    assert len(own) > 15
    for kind in own:
        choose = (
            "const kinds = document.querySelector('.sheet select'); kinds.value = arguments[0];"
            " kinds.dispatchEvent(new Event('change'));"
            " return document.querySelector('.sheet textarea').value"
        )
        tree = yaml.safe_load(opened.run(choose, kind))
        assert tree["kind"] == kind
        code, told = cluster.create(tree)
        assert code == 201, (kind, told)
    press(opened, "Cancel", ".sheet")


def test_a_notice_covers_no_view(opened):
    opened.click("#tab-cluster")
    press(opened, "Edit", ".live")
    opened.until("return document.querySelector('.live-status').textContent.includes('choose')")
    boxes = opened.run(
        "return ['.live-status', '.view', '.side'].map((each) => {"
        " const box = document.querySelector(each).getBoundingClientRect();"
        " return [box.top, box.bottom] })"
    )
    (_, end), *views = boxes
    assert all(top >= end for top, _ in views), boxes


def test_the_scheduler_s_configuration_is_shown(opened):
    press(opened, "Scheduler", ".live")
    text = opened.until("return document.querySelector('.sheet pre')?.textContent")
    assert yaml.safe_load(text)["profiles"][0]["schedulerName"] == "default-scheduler"
    press(opened, "Close", ".sheet")


def test_what_the_server_refuses_is_said_and_nothing_is_closed(browser, cluster):
    show(browser, cluster)
    press(browser, "New", ".live")
    write(browser, "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {}")
    press(browser, "Apply", ".sheet")
    browser.until(
        "return document.querySelector('.sheet .refusal').textContent.includes('Invalid value')"
    )
    write(browser, "kind: [")
    press(browser, "Apply", ".sheet")
    browser.until(
        "return document.querySelector('.sheet .refusal').textContent.includes('broken YAML')"
    )
    assert browser.run("return document.querySelector('dialog.sheet').open")
    press(browser, "Cancel", ".sheet")
    closed(browser)
    assert all("status of 4" in each for each in browser.complaints())


def test_a_fork_is_shown_beside_the_session_which_goes_on(opened, cluster):
    press(opened, "Fork", ".live")
    step = opened.run("return Number(document.querySelector('.sheet input').value)")
    write(opened, POD.replace("NAME", "only-here").replace("HOSTILE", "text"))
    press(opened, "Fork", ".sheet")
    opened.until("return document.querySelectorAll('.diagram').length === 2")
    assert opened.run("return Number(document.querySelector('.slider').value)") >= step
    names = opened.texts(".half-name")
    assert names[0] == "A: the session"
    assert names[1].startswith("B: fork 1, from step ")
    assert "Where the two runs part" in opened.text("#side-story-body")
    opened.run("document.querySelectorAll('.head .switch button')[1].click()")
    opened.press("\ue010")  # end
    look_at(opened, "only-here")
    assert cluster.ask(f"{PODS}/only-here")[0] == 404
    press(opened, "Back to the cluster")
    opened.until("return document.querySelectorAll('.diagram').length === 1")
    test_the_page_goes_on_with_the_cluster(opened)


def test_the_recording_is_downloaded(opened, cluster, tmp_path):
    opened.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    press(opened, "Recording", ".live")
    opened.until(
        "return document.querySelector('.live-status').textContent.includes('repeats the session')"
    )
    file = tmp_path / "run.rec"
    while not file.exists():
        opened.drawn()
    done = subprocess.run(
        [sys.executable, "-m", "controlplane", "replay", str(file)], capture_output=True, text=True
    )
    assert "the same as recorded" in done.stdout


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_controls_fit_the_window(browser, cluster, width):
    show(browser, cluster, width, 800)
    for name in ("New", "Fork", "Recording"):
        box = browser.run(
            "const found = [...document.querySelectorAll('.live button')]"
            ".find((each) => each.textContent === arguments[0]).getBoundingClientRect();"
            " return [found.left, found.right]",
            name,
        )
        assert 0 <= box[0] < box[1] <= width, (name, box)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.colours() > 25
    assert browser.complaints() == []


@pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: dev.py check fetches it by npm")
@pytest.mark.parametrize("sheet", ["", "New", "Fork", "Scheduler"])
def test_the_checker_of_accessibility_finds_nothing_serious(opened, sheet):
    opened.run(AXE.read_text(encoding="utf-8"))
    if sheet:
        press(opened, sheet, ".live")
    told = opened.wait("axe.run(document).then((found) => arguments[0](found.violations))")
    found = [
        (each["id"], node["html"][:120], node["failureSummary"][:200])
        for each in told
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"][:3]
    ]
    assert found == []
