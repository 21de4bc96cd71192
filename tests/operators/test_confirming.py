"""A race tried on programs in place of emulated processes: confirmed, refuted, not reached; programs that fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from controlplane.errors import UsageError
from controlplane.operators.components import component_of
from controlplane.operators.confirmation import BROKEN, FAILED, HELD, MISSED, Attempt, Confirmation
from controlplane.operators.loops.confirming import How, confirm
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from tests.cli.test_run import ROOT, controlplane

STAND_IN = f"{sys.executable} {Path(__file__).parent / 'stand_in.py'} {{kubeconfig}}"
LATE = ("hold request scheduler delete pods default/web until answer user create pods default/web",)
NEVER = ("hold request scheduler delete pods default/other until answer user create pods #2",)


async def recreated(user) -> None:
    """A pod that is to be deleted is deleted by its user, who creates another one of its name."""
    doomed = pod("web")
    doomed["metadata"]["labels"] = {"doomed": "yes"}
    await user.create(doomed)
    await user.sleep(2)
    await user.attempt(user.delete("Pod", "web", grace_period_seconds=0))
    await user.create(pod("web"))
    user.notes["created"] = True


def lost(run) -> str | None:
    there = [each.name for each in run.objects("/registry/pods/")]
    return None if not run.notes.get("created") or there else "pod web is gone"


SCENARIO = Scenario(
    "recreated",
    workload=recreated,
    build=scheduler_alone(),
    invariants=(Invariant("nobody deletes the successor", lost, ("apiserver",)),),
)
QUICK = How(times=1, settle_s=1.0, limit_s=30.0)


def tried(command: str, lines: tuple[str, ...]) -> Confirmation:
    plan = plan_of(SCENARIO, plan=lines)
    return confirm(plan, "recreated", [component_of(f"kube-scheduler={command}")], QUICK)


@pytest.mark.slow
def test_a_deletion_by_name_that_comes_late_is_confirmed() -> None:
    found = tried(STAND_IN, LATE)
    assert found.verdict == "confirmed 1 of 1"
    assert "pod web is gone" in found.attempts[0].reason


@pytest.mark.slow
def test_a_program_that_names_the_uid_refutes_it() -> None:
    assert tried(f"{STAND_IN} --uid", LATE).verdict.startswith("refuted: reached 1 times")


@pytest.mark.slow
def test_a_plan_whose_message_never_comes_is_not_reached() -> None:
    found = tried(STAND_IN, NEVER)
    assert found.verdict.startswith("not reached: hold request scheduler delete pods default/other")


@pytest.mark.slow
def test_a_program_that_ends_is_told_with_its_last_words() -> None:
    words = f"{sys.executable} -c \"import sys; sys.exit('no such flag {{kubeconfig}}')\""
    with pytest.raises(UsageError, match="scheduler ended with status 1: no such flag"):
        tried(words, LATE)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kube-proxy=x", "expected NAME=COMMAND, where NAME is one of kube-scheduler"),
        ("kube-scheduler", "expected NAME=COMMAND"),
        ("kube-scheduler=", "expected a command"),
        ("kube-scheduler=/no/where", "/no/where: no such file"),
        ("kube-scheduler='", "No closing quotation"),
    ],
)
def test_components_that_cannot_be_are_refused(text, told) -> None:
    with pytest.raises(UsageError, match=told):
        component_of(text)


def test_a_program_alone_gets_the_usual_flags() -> None:
    words = component_of("kube-controller-manager=kcm --v=4").words(Path("k"), ("job", "podgc"))
    assert words[:3] == ["kcm", "--v=4", "--kubeconfig=k"]
    assert words[-1] == "--controllers=job,podgc"


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ((BROKEN, HELD, MISSED), "confirmed 1 of 2"),
        ((HELD, HELD, MISSED), "refuted: reached 2 times, and it did not break"),
        ((MISSED, FAILED), "not reached: why"),
        ((FAILED,), "no attempt went right: why"),
    ],
)
def test_attempts_that_say_nothing_do_not_count(verdicts, verdict) -> None:
    found = Confirmation("x", tuple(Attempt(each, "why", 1.0) for each in verdicts))
    assert found.verdict == verdict
    assert found.to_json()["verdict"] == verdict


@pytest.mark.slow
def test_the_command_line_tells_the_verdict(tmp_path) -> None:
    scenario = tmp_path / "recreated.py"
    module = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    found = "from tests.operators.test_confirming import SCENARIO as FOUND\nSCENARIO = FOUND\n"
    scenario.write_text(module + found)
    plan = tmp_path / "late.plan"
    plan.write_text("\n".join(LATE))
    asked = ["confirm", scenario, "--component", f"kube-scheduler={STAND_IN}"]
    asked += ["--plan", plan, "--times", 1, "--settle", 1, "--format", "json"]
    done = controlplane(*asked)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"] == "confirmed 1 of 1"
