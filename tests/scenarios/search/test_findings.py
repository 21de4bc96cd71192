"""A finding tried again on changed code: by its plan, its demotions, or its choices' names."""

from __future__ import annotations

import pytest
from attrs import evolve

from actors.strategies.demote import Demotion
from controlplane.errors import UsageError
from controlplane.scenarios.engine.allowed_code import NO_CODE, AllowedCode
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import findings, loading
from controlplane.scenarios.search.corpus import Corpus
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scenarios.search.findings import finding_of, load, tried, try_again
from controlplane.scenarios.search.shrinking import shorten
from controlplane.scenarios.search.tally import Seen

SOURCE = """
from controlplane.cluster import ClusterConfig
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map


def build(setting):
    return ClusterConfig(nodes=(), kubelets=False, controllers=False, scheduler=False)


async def write(user, value):
    found = await user.get("ConfigMap", "c")
    changed = {**found.tree, "data": {**found.tree["data"], value: "1"}}
    CHANGE
    await user.attempt(user.update(changed))


async def first(user):
    await user.create(config_map("c", count="0"))
    await write(user, "first")


async def second(user):
    await user.sleep(SLEEP)
    if user.choose(2, "does it write?"):
        await write(user, "second")


def only_the_first(run):
    [found] = run.objects("/registry/configmaps/")
    return f"found {sorted(found.tree['data'])}" if "second" in found.tree["data"] else None


SCENARIO = Scenario(
    "two writers",
    workload={"first": first, "second": second},
    build=build,
    invariants=[Invariant("only the first", only_the_first)],
)
"""


def written(path, change="pass", sleep="1.0"):
    path.write_text(SOURCE.replace("CHANGE", change).replace("SLEEP", sleep))
    return path


@pytest.fixture
def found(tmp_path):
    """A finding kept in a folder, with the file of its scenario."""
    path = written(tmp_path / "writers.py")
    plan = plan_of(loading.from_file(path))
    [finding] = Campaign(plan).explore(20).findings
    short = shorten(plan, finding.result.choices)
    folder = tmp_path / "finding"
    short.failing.save(folder, short.recording())
    finding_of(short).save(folder)
    return path, folder


def test_what_is_kept_is_read_as_it_was(found):
    _, folder = found
    kept = load(folder)
    assert kept.identity == ("violated", "only the first")
    assert kept.demotions == ()
    assert sum(map(sum, kept.data.values())) == 1
    kept.save(folder)
    assert load(folder) == kept


def test_changed_code_that_still_breaks(found):
    path, folder = found
    written(path, change="changed = dict(changed)  # an edit")
    attempt = tried(folder)
    assert str(attempt) == "still breaks: only the first: found ['count', 'second']" or str(
        attempt
    ).startswith("still breaks: only the first: ")
    assert attempt.breaks


def test_mended_code_no_longer_breaks(found):
    path, folder = found
    written(path, change="changed['data'].pop('second', None)")
    attempt = tried(folder)
    assert str(attempt) == "no longer breaks"
    assert not attempt.breaks


def test_code_that_fails_in_another_way_breaks_otherwise(found):
    path, folder = found
    written(path, change="raise ValueError('oh')")
    attempt = tried(folder)
    assert attempt.outcome == "breaks otherwise"
    assert "oh" in attempt.detail


def test_a_task_that_never_competes_is_not_reached(found):
    path, folder = found
    written(path, change="changed['data'].pop('second', None)")
    gone = Demotion("task", "third/main")
    kept = evolve(load(folder), demotions=(gone,), choices=None)
    attempt = try_again(plan_of(loading.from_file(path)), kept)
    assert str(attempt) == f"not reached: {gone}"


def test_a_plan_whose_message_does_not_come_is_not_reached(found):
    path, folder = found
    written(path, change="changed['data'].pop('second', None)")
    line = "lose request second create pods"
    kept = evolve(load(folder), lines=(line,), demotions=None, choices=None)
    attempt = try_again(plan_of(loading.from_file(path)), kept)
    assert str(attempt) == f"not reached: {line}"


def test_choices_that_are_no_longer_there_cannot_be_followed(found):
    path, folder = found
    (folder / findings.FINDING).unlink()
    path.write_text(path.read_text().replace('"second": second', '"other": second'))
    path.write_text(path.read_text().replace("if user.choose(2", "if False and user.draw(2"))
    attempt = tried(folder)
    assert str(attempt).startswith("cannot be followed from step ")


def test_code_runs_only_if_it_is_allowed(found):
    path, folder = found
    with pytest.raises(UsageError, match="--allow-code"):
        tried(folder, NO_CODE)
    assert tried(folder, AllowedCode([str(path)])).breaks


def test_a_finding_belongs_to_the_search_with_its_options(found):
    path, folder = found
    scenario = loading.from_file(path)
    assert load(folder).belongs_to(plan_of(scenario))
    assert not load(folder).belongs_to(plan_of(scenario, without_fix=("138324",)))
    assert not load(folder).belongs_to(plan_of(evolve(scenario, name="another")))


def test_a_damaged_finding_is_told(found):
    _, folder = found
    (folder / findings.FINDING).write_text("{}")
    with pytest.raises(UsageError, match="not a finding"):
        load(folder)


def test_the_corpus_of_changed_code_begins_anew_and_tries_its_findings_first(tmp_path):
    path = written(tmp_path / "writers.py")
    plan = plan_of(loading.from_file(path))
    campaign = Campaign(plan)
    corpus = Corpus(tmp_path / "corpus", plan, "random-walk", 0)
    seen = Seen.of(campaign.explore(20))
    corpus.tally.add(seen)
    corpus.note(corpus.tally, seen)
    assert corpus.known == 1

    written(path, change="changed = dict(changed)  # an edit")
    changed = plan_of(loading.from_file(path))
    again = Corpus(tmp_path / "corpus", changed, "random-walk", 0)
    assert again.changed
    assert again.tally.schedules == 0
    [(number, attempt)] = again.try_again()
    assert (number, attempt.outcome) == (1, "still breaks")
    assert [each.identity for each in again.tally.failing] == [("violated", "only the first")]

    written(path, change="changed['data'].pop('second', None)")
    mended = Corpus(tmp_path / "corpus", plan_of(loading.from_file(path)), "random-walk", 0)
    [(_, attempt)] = mended.try_again()
    assert attempt.outcome == "no longer breaks"
    assert mended.tally.failing == ()
