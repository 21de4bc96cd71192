"""The result of a search in the formats that CI systems read: JUnit XML, SARIF 2.1.0, GitHub annotations."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from attrs import field, frozen

from controlplane import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.search.tally import Failing, Identity

__all__ = ["FORMATS", "Report", "place_of"]

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@frozen
class Report:
    """A search: the scenario, its file and line, the different failures, and the story of the one that was shown."""

    scenario: str
    file: str
    line: int
    failing: Sequence[Failing]
    schedules: int
    wall_s: float
    shown: Failing | None = None
    story: tuple[str, ...] = ()
    causes: Mapping[Identity, tuple[str, ...]] = field(factory=dict)
    """The lines that name the cause of a failure, by its identity."""

    def text(self, failing: Failing) -> str:
        """Return all that is known of a failure."""
        head = f"{failing.verdict}: {failing.reason}"
        story = self.story if failing is self.shown else ()
        return "\n".join((head, *self.causes.get(failing.identity, ()), *story))


def place_of(plan: Plan) -> tuple[str, int]:
    """Return the file of a scenario and the line of its workload; 1 where that stands elsewhere."""
    scenario = plan.scenario
    address = "" if scenario.origin is None else scenario.origin.address
    if not address.endswith((".py", ".yaml", ".yml")):
        address = f"{address.replace('.', '/')}.py" if address else ""
    code = getattr(scenario.workload, "__code__", None)
    near = code is not None and code.co_filename.endswith(address)
    return address, code.co_firstlineno if near and code is not None else 1


def _invariant(failing: Failing) -> str:
    """Return the name of what broke: the invariant, or the verdict."""
    return failing.identity[1] or failing.verdict


def junit(report: Report) -> str:
    """JUnit XML: a test case for each different failure, or one that passed."""
    suites = ElementTree.Element("testsuites")
    cases = max(1, len(report.failing))
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=_clean(report.scenario),
        tests=str(cases),
        failures=str(len(report.failing)),
        errors="0",
        skipped="0",
        time=f"{report.wall_s:.3f}",
    )
    for each in report.failing:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(report.scenario), name=_clean(_invariant(each))
        )
        if report.file:
            case.set("file", report.file)
            case.set("line", str(report.line))
        failure = ElementTree.SubElement(
            case, "failure", type=each.verdict, message=_clean(each.reason)
        )
        failure.text = _clean(report.text(each))
    if not report.failing:
        name = f"{report.schedules} schedules"
        ElementTree.SubElement(suite, "testcase", classname=_clean(report.scenario), name=name)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _clean(text: str) -> str:
    """Return a text without the characters that XML does not allow."""
    return _NOT_XML.sub("\ufffd", text)


def sarif(report: Report) -> str:
    """SARIF 2.1.0: a rule for each invariant that broke, a result for each different failure."""
    names = list(dict.fromkeys(_invariant(each) for each in report.failing))
    results = []
    for each in report.failing:
        result: dict[str, Any] = {
            "ruleId": _invariant(each),
            "ruleIndex": names.index(_invariant(each)),
            "level": "error",
            "message": {"text": report.text(each)},
            "properties": {"seed": each.seed, "schedule": each.schedule, "times": each.times},
        }
        if report.file:
            place = {
                "artifactLocation": {"uri": report.file},
                "region": {"startLine": report.line},
            }
            result["locations"] = [{"physicalLocation": place}]
        results.append(result)
    driver = {"name": "controlplane", "version": __version__, "rules": [{"id": n} for n in names]}
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def github(report: Report) -> str:
    """Workflow commands of GitHub Actions: one error annotation for each different failure."""
    place = f"file={_property(report.file)},line={report.line}," if report.file else ""
    lines = [
        f"::error {place}title={_property(_invariant(each))}::{_message(report.text(each))}"
        for each in report.failing
    ]
    if not lines:
        lines = [
            f"::notice title={_property(report.scenario)}::{report.schedules} schedules: nothing broke"
        ]
    return "\n".join(lines)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[Report], str]] = {"junit": junit, "sarif": sarif, "github": github}
