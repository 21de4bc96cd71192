"""Plans as text: what is written is what is read, and mistakes are told with their line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.errors import UsageError
from controlplane.scenarios.plans.language import (
    AT_MOST_S,
    REASONS,
    Condition,
    Pattern,
    Perturbation,
    PerturbationPlan,
    parse,
)
from controlplane.scenarios.plans.passing import Passing

LINES = (
    "hold request scheduler patch pods/status default/web #2 until answer scheduler create pods/binding default/web",
    "hold event node-1 DELETED pods @1 until request user create pods at most 5",
    "hold step controller-manager 'watch pods' until answer user delete pods",
    "delay answer scheduler create pods/binding for 1.5",
    "fail request controller-manager update deployments where spec.replicas=2 with 409",
    "lose answer csi-snapshotter CreateSnapshot csi",
    "kill scheduler after answer scheduler create pods/binding default/* for 3",
    "kill node-1 before request node-1 patch pods/status where !metadata.deletionTimestamp",
    "fail answer operator patch pods #2 was spec.nodeName=node-1 where 'metadata.labels.a\\.b/c=x y' with 504",
    "swallow event operator MODIFIED pods web was status.phase=Pending until event operator * pods web at most 5",
    "freeze op pods from answer op create pods web #2 as of event op DELETED pods web until answer op delete pods",
    "freeze op pods from answer * create pods web as of before event op MODIFIED pods web for 20",
    "kill op after answer * create pods web once event op MODIFIED pods web #2",
    "freeze apiserver-2 pods from answer user delete pods web until answer user create pods web",
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_written_as_it_was_read(line: str) -> None:
    assert str(parse(line)) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "stop request a get pods",
            "'stop': expected hold or delay or fail or lose or kill or freeze or swallow",
        ),
        ("hold request a get pods", "the end of the line: expected 'until'"),
        ("hold request a get", "the line ends: expected a resource"),
        ("hold step a p until step b q", "'step': expected request or answer or event"),
        ("delay event a ADDED pods for ever", "'ever': expected a number of seconds above 0"),
        ("fail request a get pods with 200", "'200': expected one of 403"),
        ("lose answer a get pods @0", "'@0': expected @ and the number of an object, from 1"),
        ("lose answer a get pods #x", "'#x': expected # and a number from 1"),
        ("lose answer a get pods web now", "'now': expected the end of the line"),
        ("kill a during request a get pods", "'during': expected before or after"),
        ("hold request 'a get pods", "No closing quotation"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_was_expected(line: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(f"# a plan\n\n{line}\n", "my.plan")
    assert str(error.value).startswith(f"my.plan, line 3: {expected}")


def test_comments_and_empty_lines_say_nothing() -> None:
    assert parse("# why\n\n  #\nlose answer a get pods # as on Monday\n") == parse(
        "lose answer a get pods"
    )


words = st.text("abcxyz-/*", min_size=1, max_size=8).filter(
    lambda word: word not in ("for", "at", "as", "once")
)
patterns = st.builds(
    Pattern,
    st.sampled_from(("request", "answer", "event")),
    words,
    words,
    words,
    words | st.just(""),
    st.integers(1, 9),
    st.lists(
        st.builds(
            Condition,
            st.text("ab.", min_size=1, max_size=5),
            st.none() | st.text("ab1 '\\", max_size=3),
            st.booleans(),
            st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
)
seconds = st.integers(1, 5000).map(lambda tenths: tenths / 10)
perturbations = st.one_of(
    st.builds(Perturbation, st.just("hold"), patterns, patterns, seconds | st.just(AT_MOST_S)),
    st.builds(lambda what, s: Perturbation("delay", what, seconds=s), patterns, seconds),
    st.builds(lambda what: Perturbation("lose", what), patterns),
    st.builds(
        lambda what, code: Perturbation("fail", what, code=code),
        patterns.filter(lambda what: what.kind == "request"),
        st.sampled_from(sorted(REASONS)),
    ),
    st.builds(
        lambda what, actor, when, s: Perturbation("kill", what, seconds=s, actor=actor, when=when),
        patterns,
        words,
        st.sampled_from(("before", "after")),
        seconds | st.just(0.0),
    ),
)


@pytest.mark.slow
@given(st.lists(perturbations, max_size=4).map(tuple).map(PerturbationPlan))
def test_reading_what_was_written_gives_the_same_plan(plan: PerturbationPlan) -> None:
    assert parse(str(plan)) == plan


def test_a_pattern_means_what_its_fields_say() -> None:
    tree = {"spec": {"nodeName": "node-1", "paused": False, "ports": [{"name": "a"}]}}
    web = Passing("request", "scheduler", "apiserver", "patch", "pods/status", "default/web", tree)

    def meant(line: str, names: tuple[str, ...] = ()) -> bool:
        return parse(f"lose request {line}").lines[0].what.matches(web, names)

    assert meant("scheduler patch pods/status")
    assert meant("sched* * pods/* web")
    assert meant("* * * default/w*")
    assert not meant("* * * default/web-1")
    assert not meant("user patch pods/status")
    assert meant("* * * @2", ("default/other", "default/web"))
    assert not meant("* * * @1", ("default/other", "default/web"))
    assert meant("* * * where spec.nodeName=node-1 where spec.paused=false")
    assert meant("* * * where spec.ports.0.name=a where !spec.replicas")
    assert not meant("* * * where spec.nodeName!=node-1")
    assert not meant("* * * where spec.missing")
