"""Mutants: each operator makes its one mistake, at a place that an edit elsewhere does not move."""

from __future__ import annotations

import ast

import pytest

from controlplane.races.mutants.operators import OPERATORS, REACHED, marked, mutants_of, mutated
from controlplane.races.mutants.population import COMPONENTS, modules_of, population, sample

SOURCES = {
    "guard-dropped": ("if a.uid != b.uid:\n    return\nwork()", "pass\nwork()"),
    "condition-dropped": ("if a.uid == b.uid:\n    work()", "work()"),
    "operand-dropped": ("return a.ready and a.uid == b.uid", "return a.ready"),
    "effects-swapped": ("yield Write('a')\nyield Write('b')", "yield Write('b')\nyield Write('a')"),
    "notification-forgotten": ("queue.notify()\nwork()", "pass\nwork()"),
    "release-forgotten": ("cache.forget(pod)\nwork()", "pass\nwork()"),
    "expectation-ignored": (
        "if not self.expectations.satisfied(key):\n    return\nwork()",
        "pass\nwork()",
    ),
    "reread-skipped": ("pod = yield Get(pod)\nwork(pod)", "pass\nwork(pod)"),
    "retry-given-up": (
        "try:\n    work()\nexcept E:\n    raise",
        "try:\n    work()\nexcept E:\n    return",
    ),
    "write-repeated": ("yield Create(pod)", "yield Create(pod)\nyield Create(pod)"),
}


def in_function(body: str, name: str = "decide") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"def {name}(self, a, b):\n{lines}\n"


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_makes_its_mistake_and_marks_the_place(operator) -> None:
    correct, mistaken = SOURCES[operator]
    (mutant,) = [
        each for each in mutants_of("m", in_function(correct)) if each.operator == operator
    ]
    changed = ast.unparse(mutated(in_function(correct), mutant))
    assert f"{REACHED}('{mutant.name}')\n" in changed
    without_mark = "\n".join(line for line in changed.splitlines() if REACHED not in line)
    assert without_mark == ast.unparse(ast.parse(in_function(mistaken)))


def test_all_places_of_a_module_are_marked_and_nothing_else_changes() -> None:
    source = "\n".join(
        in_function(correct, f"decide_{at}") for at, (correct, _) in enumerate(SOURCES.values())
    )
    changed = ast.unparse(marked("m", source))
    for mutant in mutants_of("m", source):
        assert changed.count(f"{REACHED}('{mutant.name}')\n") == 1
    unmarked = "\n".join(line for line in changed.splitlines() if REACHED not in line)
    assert unmarked == ast.unparse(ast.parse(source))


def test_names_of_places_do_not_depend_on_lines() -> None:
    source = in_function(SOURCES["guard-dropped"][0])
    moved = in_function("other()", "first") + "\n\n# a comment\n\n" + source
    (one,), (other,) = ([each.name for each in mutants_of("m", text)] for text in (source, moved))
    assert one == other == "m:decide:guard-dropped:0"


def test_effects_that_depend_on_each_other_are_not_swapped() -> None:
    source = in_function("found = yield Get('a')\nyield Write(found)")
    assert [each for each in mutants_of("m", source) if each.operator == "effects-swapped"] == []


def test_a_place_that_is_gone_is_an_error() -> None:
    with pytest.raises(LookupError, match="guard-dropped:7"):
        mutated(in_function("pass"), "m:decide:guard-dropped:7")


def test_every_mutant_of_the_scheduler_compiles() -> None:
    module = "controlplane.scheduler.queue.failed_attempts"
    assert module in modules_of("scheduler")
    from controlplane.races.mutants.population import source_of

    for mutant in mutants_of(module, source_of(module)):
        compile(mutated(source_of(module), mutant), mutant.module, "exec")


@pytest.mark.slow
def test_there_are_hundreds_of_mutants_of_all_components() -> None:
    counts = {component: len(population(component)) for component in COMPONENTS}
    assert all(counts.values()) and sum(counts.values()) >= 300, counts


@pytest.mark.slow
def test_a_sample_is_the_same_every_time_and_draws_from_all_operators() -> None:
    mutants = population("controllers")
    drawn = sample(mutants, 20)
    assert drawn == sample(list(reversed(mutants)), 20)
    assert len({each.operator for each in drawn}) >= 8
    assert sample(mutants, 20, seed=1) != drawn
