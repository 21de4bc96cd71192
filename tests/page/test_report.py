from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import pytest

from controlplane.page import report as reports
from controlplane.page.model import Model, encode
from controlplane.page.report import bundle, report


class Elements(HTMLParser):
    """Elements with their attributes and their text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict, list[str]]] = []
        self.inside = False

    def handle_starttag(self, tag, attrs) -> None:
        self.found.append((tag, dict(attrs), []))
        self.inside = True

    def handle_data(self, data) -> None:
        if self.inside:
            self.found[-1][2].append(data)

    def handle_endtag(self, tag) -> None:
        self.inside = False


def elements(text: str) -> list[tuple[str, dict, str]]:
    parser = Elements()
    parser.feed(text)
    return [(tag, attributes, "".join(words)) for tag, attributes, words in parser.found]


@pytest.fixture(scope="module")
def page(broken) -> str:
    return report([broken.model])


def test_the_run_stands_in_the_file_as_the_model_has_it(broken, page) -> None:
    (packed,) = [text for tag, a, text in elements(page) if a.get("data-part") == "run"]
    assert zlib.decompress(base64.b64decode(packed)) == encode(broken.model.since())


def test_nothing_is_fetched(page) -> None:
    for tag, attributes, _ in elements(page):
        assert tag not in {"img", "iframe", "object", "embed"}
        assert "src" not in attributes, (tag, attributes)
        assert attributes.get("href", "data:,") == "data:,"
        assert not [name for name in attributes if name.startswith("on")]
    assert "default-src 'none'" in page


def test_the_policy_lets_this_script_run_and_no_other(page) -> None:
    found = elements(page)
    (policy,) = [a["content"] for _, a, _ in found if a.get("http-equiv")]
    (script,) = [text for tag, a, text in found if a.get("type") == "module"]
    (style,) = [text for tag, _, text in found if tag == "style"]
    for text, kind in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_modules_evaluate_no_text_and_make_no_markup_of_one() -> None:
    text = bundle()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
    ):
        assert word not in text


def test_a_hostile_name_of_a_run_ends_no_element() -> None:
    model = Model(name="</script><script>alert(1)</script>")
    text = report([model])
    assert "<script>alert" not in text
    assert "<title>&lt;/script&gt;" in text


def test_each_module_keeps_its_names_to_itself(monkeypatch) -> None:
    files = {
        "main.js": 'import { b } from "./other.js";\nconst own = b;\n',
        "other.js": "const own = 1;\nexport const b = own;\n",
    }
    monkeypatch.setattr(reports, "static", files.__getitem__)
    text = bundle()
    assert text.index("module_other =") < text.index("module_main =")
    assert "const { b } = module_other;" in text
    assert "return { b };" in text


@pytest.mark.parametrize(
    "files",
    [
        {"main.js": 'import { a } from "./b.js";\n', "b.js": 'import { c } from "./main.js";\n'},
        {"main.js": 'import * as b from "./b.js";\n', "b.js": ""},
        {"main.js": 'import { a as c } from "./b.js";\n', "b.js": "export const a = 1;\n"},
        {"main.js": "export default 1;\n"},
    ],
)
def test_modules_that_cannot_be_put_together_are_refused(monkeypatch, files) -> None:
    monkeypatch.setattr(reports, "static", files.__getitem__)
    with pytest.raises(ValueError, match=r"main\.js"):
        bundle()


def test_imports_are_of_names_that_are_exported() -> None:
    """What no build checks: each name that a module takes from another is one that this one gives."""
    from importlib import resources

    folder = resources.files("controlplane.page").joinpath("static")
    texts = {each.name: each.read_text() for each in folder.iterdir() if each.name.endswith(".js")}
    for name, text in texts.items():
        for names, other in re.findall(
            r'^import \{([^}]*)\} from "\./([\w-]+\.js)";', text, re.MULTILINE
        ):
            for taken in filter(None, (each.strip() for each in names.split(","))):
                given = rf"^export (?:async )?(?:class|function|const) {taken}\b"
                assert re.search(given, texts[other], re.MULTILINE), (
                    f"{name} takes {taken} from {other}"
                )


# ------------------------------------------------------------------ the command


def test_a_report_is_one_file_for_its_owner(logs, runs, tmp_path) -> None:
    target = tmp_path / "report.html"
    status, said, error = logs("report", runs[0], "-o", target)
    assert (status, error) == (0, "")
    assert said.startswith(f"written: {target} (")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_two_runs_stand_in_one_report_with_their_difference(logs, runs, tmp_path) -> None:
    target = tmp_path / "two.html"
    assert logs("report", *runs, "-o", target)[0] == 0
    parts = [a.get("data-part") for _, a, _ in elements(target.read_text())]
    assert [each for each in parts if each] == ["run", "run", "difference"]


def test_what_a_report_lacks_is_said(logs, runs, tmp_path) -> None:
    status, _, error = logs("report", runs[0] / "log.jsonl", "-o", tmp_path / "r.html")
    assert status == 0
    assert "no recording (run.rec) beside the log" in error


def test_a_run_is_not_repeated_where_only_its_log_is_asked_for(
    logs, runs, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("controlplane.scenarios.search.replaying.load", None)
    status, _, error = logs("report", runs[0], "--log-only", "-o", tmp_path / "r.html")
    assert status == 0
    assert "nothing was repeated" in error


@pytest.mark.slow
def test_the_same_run_gives_the_same_file_whatever_the_hash_seed(runs, tmp_path) -> None:
    made = []
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.html"
        command = [sys.executable, "-m", "controlplane", "logs", "report", runs[0], "-o", target]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment, capture_output=True)
        made.append(target.read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["nowhere"], "no such log"),
        (["{run}", "{run}", "{run}"], "expected RUN [RUN], found 3 runs"),
        (["{run}", "-o", "{run}/no/such/folder/r.html"], "cannot be written"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(logs, runs, arguments, wanted) -> None:
    status, said, error = logs("report", *(each.format(run=runs[0]) for each in arguments))
    assert (status, said) == (2, "")
    assert wanted in error
    assert len(error.strip().splitlines()) == 1
