"""One run of a check: the manifests, the events of one try, and the verdicts on what was written.

The scenario of a recording that `controlplane check` leaves: it replays, and breaks as it broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from controlplane.api.times import SECOND
from controlplane.errors import UsageError
from controlplane.scenarios import manifest_run
from controlplane.scenarios.check import events
from controlplane.scenarios.check.carrying_out import Stage
from controlplane.scenarios.check.loads import loads_of, milli
from controlplane.scenarios.check.patience import patience_of
from controlplane.scenarios.check.recorder import Recorder
from controlplane.scenarios.check.report import told
from controlplane.scenarios.check.subject import Subject, subject_of
from controlplane.scenarios.check.timeline import courses_of
from controlplane.scenarios.check.verdicts import judge
from controlplane.scenarios.engine.load import LOAD
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.engine.systems import longest_wait_s

if TYPE_CHECKING:
    from controlplane.client.resources import Resource
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.check.verdicts import Finding
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User
    from controlplane.scenarios.inputs.reading import Submission

__all__ = [
    "BEGIN",
    "EVENTS",
    "SCENARIO",
    "findings_of",
    "nodes_at_rest",
    "placed_at_rest",
    "rest_of",
]

LIVELOCK_LIMIT: Final = 500_000
"""A workload that goes round in one instant is noticed long before (`Recorder.endless`)."""
RECORDER: Final = "check.recorder"
FINDINGS: Final = "check.findings"
STAGE: Final = "check.stage"


def _event(text: str) -> str:
    return str(events.parse(text))


EVENTS = Option(
    "event",
    many=True,
    default=(),
    metavar="EVENT",
    convert=_event,
    help="What happens, in this order: KIND or KIND:TARGET.",
)
BEGIN = Option(
    "begin",
    type=float,
    low=0,
    metavar="SECONDS",
    help="The virtual time of the first event; without it, when the cluster is at rest.",
)


def prepare(setting: Setting) -> tuple[manifest_run.Given, Subject]:
    """Read the files, and what is to be known of them. Raises UsageError."""
    given = manifest_run.prepare(setting)
    if given.is_trace:
        raise UsageError("a trace has no configuration to check: expected manifests")
    subject = subject_of((each.tree for each in given.submissions), given.nodes)
    for text in setting["event"]:
        if events.unknown_target(subject, events.parse(text)):
            raise UsageError(f"--event {text}: the files have no such thing")
    loaded = tuple(_loaded(subject, each) for each in given.submissions)
    return evolve(given, submissions=loaded), subject


def _loaded(subject: Subject, submission: Submission) -> Submission:
    """The submission with the load that its autoscaler finds in the beginning, if the manifest tells of none."""
    tree = submission.tree
    loads = loads_of(subject, tree)
    metadata = tree["metadata"]
    annotations = metadata.get("annotations") or {}
    if loads is None or LOAD in annotations:
        return submission
    noted = {**annotations, LOAD: milli(loads.usual)}
    return evolve(submission, tree={**tree, "metadata": {**metadata, "annotations": noted}})


def build(setting: Setting) -> ClusterConfig:
    """The cluster of `controlplane run` with these files."""
    return manifest_run.build(evolve(setting, given=setting.given[0]))


def _begin(run: Run) -> None:
    run.notes[RECORDER] = recorder = Recorder(run)
    run.world.overhear(recorder)


async def workload(user: User) -> None:
    """Submit the files, let the events happen, and judge."""
    given, subject = user.run.setting.given
    options, recorder = user.options, user.notes[RECORDER]
    patience = patience_of(subject, longest_wait_s(user.run.setting))
    stage = Stage(user, subject, recorder, patience, _places(given, subject))
    user.notes[STAGE] = stage
    await manifest_run.submit_all(user, given)
    begin = options["begin"]
    if begin is None:
        await stage.settle(0, "")
    else:
        await user.ctx.sleep_until(max(user.ctx.now + 1, round(begin * SECOND)))
    if begin is not None or stage.phases[-1].rested:
        await stage.happen([events.parse(text) for text in options["event"]])
    user.notes[FINDINGS] = judge(subject, stage.history())


def _places(
    given: manifest_run.Given, subject: Subject
) -> list[tuple[Resource[Any], str, dict[str, Any]]]:
    """The user's objects as the files have them, with resources and namespaces; no deletions of a trace."""
    from controlplane.scenarios.inputs.reading import CREATE
    from controlplane.scenarios.inputs.submission import namespace_of

    found = []
    for submission, tree in zip(given.submissions, subject.trees, strict=True):
        resource, namespaced = given.resources.of(submission)
        if submission.verb == CREATE and tree["metadata"].get("name"):
            found.append((resource, namespace_of(tree, namespaced=namespaced), tree))
    return found


def findings_of(run: Run) -> list[Finding]:
    """The findings of a run that has come to its end; none of one that has not."""
    found: list[Finding] = run.notes.get(FINDINGS, [])
    return found


def has_begun(run: Run) -> bool:
    """Return whether the run came as far as the first rest, or the end of patience with it."""
    stage: Stage | None = run.notes.get(STAGE)
    return stage is not None and bool(stage.phases)


def rest_of(run: Run) -> float:
    """The virtual time in seconds at which the cluster was at rest in the beginning."""
    stage: Stage = run.notes[STAGE]
    return (stage.phases[0].end_ns + 1) / SECOND


def nodes_at_rest(run: Run) -> tuple[dict[str, Any], ...]:
    """The nodes when the run was at rest in the beginning: those of the files, and others that came."""
    recorder: Recorder = run.notes[RECORDER]
    found: dict[str, dict[str, Any]] = {}
    for change in recorder.changes:
        if change.resource != "nodes" or change.t_ns > run.notes[STAGE].phases[0].end_ns:
            continue
        if change.new is None:
            found.pop(change.key, None)
        else:
            found[change.key] = change.new
    return tuple(found.values())


def placed_at_rest(run: Run) -> dict[str, list[str]]:
    """By node, the workloads of its pods when the run was at rest in the beginning, one entry for each pod."""
    recorder: Recorder = run.notes[RECORDER]
    found: dict[str, list[str]] = {}
    for key, course in courses_of(recorder.changes).items():
        now = course.at(run.notes[STAGE].phases[0].end_ns)
        for pod in now.pods if now is not None else ():
            found.setdefault(pod.node, []).append(key)
    return found


def _check(run: Run) -> str | None:
    recorder: Recorder = run.notes[RECORDER]
    if recorder.endless and FINDINGS not in run.notes:
        run.notes[FINDINGS] = judge(run.setting.given[1], run.notes[STAGE].history())
    found = run.notes.get(FINDINGS)
    if found is None:
        return None
    if found:
        return told(found[0])
    run.world.stop("no finding")
    return None


def _moves(run: Run) -> tuple[bool, bool]:
    return FINDINGS in run.notes, run.notes[RECORDER].endless


def _invariants(setting: Setting) -> tuple[Invariant, ...]:
    from controlplane.cluster_config import APISERVER, numbered

    after = ("user", *numbered(APISERVER, setting["apiservers"] or 1))
    return (Invariant("check", _check, after, begin=_begin, looks_at=_moves),)


SCENARIO = Scenario(
    "check",
    title="what happens to every cluster, to a configuration of yours",
    workload=workload,
    build=build,
    prepare=prepare,
    options=(manifest_run.FILES, EVENTS, BEGIN, manifest_run.MAX_PODS),
    defaults=manifest_run.WHOLE,
    told=manifest_run.TOLD,
    invariants=_invariants,
    livelock_limit=LIVELOCK_LIMIT,
)
