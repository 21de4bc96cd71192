"""The result of a search in the formats of CI systems."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from attrs import evolve

from actors.choices import ChoiceList
from controlplane.cli.ci_formats import Report, github, junit, place_of, sarif
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.tally import Failing
from tests.cli.test_run import ROOT

ONE = Failing(3, 3, 2, "violated", "law: a, b\x00 <c>", ChoiceList())
OTHER = Failing(9, 9, 8, "deadlock", "100% stuck", ChoiceList())
REPORT = Report(
    "mine", "tests/mine.py", 7, (ONE, OTHER), 20, 1.5, ONE, ("known: 1, open", "step 5")
)


def test_junit_has_a_failed_case_for_each_failure():
    suite = ElementTree.fromstring(junit(REPORT)).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("time")) == ("2", "2", "1.500")
    one, other = suite.findall("testcase")
    assert (one.get("name"), one.get("file"), one.get("line")) == ("law", "tests/mine.py", "7")
    assert one.find("failure").get("message") == "law: a, b\ufffd <c>"
    assert one.find("failure").text.splitlines()[1:] == ["known: 1, open", "step 5"]
    assert other.get("name") == "deadlock"
    assert other.find("failure").text == "deadlock: 100% stuck"


def test_junit_of_a_search_that_found_nothing_has_one_case_that_passed():
    suite = ElementTree.fromstring(junit(evolve(REPORT, failing=()))).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert suite.find("testcase").get("name") == "20 schedules"
    assert suite.find("testcase/failure") is None


def test_sarif_has_a_rule_for_each_invariant_and_a_place_for_each_result():
    told = json.loads(sarif(evolve(REPORT, failing=(ONE, ONE, OTHER))))
    [run] = told["runs"]
    assert (told["version"], run["tool"]["driver"]["name"]) == ("2.1.0", "controlplane")
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["law", "deadlock"]
    assert [each["ruleIndex"] for each in run["results"]] == [0, 0, 1]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "tests/mine.py"},
        "region": {"startLine": 7},
    }
    assert "locations" not in json.loads(sarif(evolve(REPORT, file="")))["runs"][0]["results"][0]


def test_github_annotations_are_one_escaped_line_each():
    one, other = github(REPORT).splitlines()
    assert one.startswith("::error file=tests/mine.py,line=7,title=law::violated: law: a, b")
    assert one.endswith("%0Aknown: 1, open%0Astep 5")
    assert other == "::error file=tests/mine.py,line=7,title=deadlock::deadlock: 100%25 stuck"
    named = evolve(REPORT, scenario="a: b, c", failing=())
    assert github(named) == "::notice title=a%3A b%2C c::20 schedules: nothing broke"


@pytest.mark.parametrize("made", [junit, sarif, github])
def test_every_format_names_every_failure(made):
    assert all(word in made(REPORT) for word in ("law", "deadlock"))


def test_the_place_is_the_workload_in_its_file():
    path = ROOT / "examples" / "lost_update.py"
    file, line = place_of(plan_of(loading.from_file(path)))
    assert file == path.as_posix()
    assert path.read_text().splitlines()[line - 1].startswith("async def workload")


def test_the_place_of_a_scenario_of_the_package_is_its_module():
    plan = plan_of(loading.from_module("controlplane.races.r49992"))
    assert place_of(plan)[0] == "controlplane/races/r49992.py"
