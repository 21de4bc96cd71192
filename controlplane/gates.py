"""Versions and bugs are switches.

A *fix gate* is named after the upstream pull request that fixed a published race. On (fixed) by
default; `--without-fix` turns it off, and a fix with several forms can be chosen by name.
`--release` sets each gate as that release had it. A fix that no release up to ours has, because it
is younger or only proposed, is off by default; `--fix` puts it in force.
Numbers of the component "storage" are those of external-snapshotter, those that begin with "ep" of
external-provisioner, whose releases count as those of Kubernetes that they came out with (8.2 as 1.32, 8.3 as
1.33, 8.5 as 1.35, 8.6 and the provisioner's 6.2 as 1.36).

What upstream did before and after a fix is described where the gate is asked.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from attrs import field, frozen

from controlplane.errors import UsageError, shown

LATEST: Final = "1.36"
OFF: Final = "off"
"""The header value of a gate that is off."""


def by_number(number: str) -> tuple[str, int]:
    """The order of gates: Kubernetes' own, by number, then those of other projects (es261)."""
    project = number.rstrip("0123456789")
    return project, int(number[len(project) :])


@cache
def minor_of(release: str) -> tuple[int, int]:
    """A release as numbers. Raises UsageError."""
    parts = release.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        raise UsageError(
            f"release {shown(release)}: expected MAJOR.MINOR, for instance {LATEST}"
        ) from None


@frozen
class FixGate:
    """One published fix.

    `variants` names its forms, the merged one first; `fixed_in` is the first minor release that has
    it (cherry-picks included), "" when none has: it is proposed. `unfixed_from` is the first
    release with the bug, if the bug is younger than what we emulate. `earlier` lists forms that
    releases before `fixed_in` had, each with the first of them. `closed` says of a proposed fix
    that it is in force unless it is turned off, because standing open would cost every run.
    `complete` names a form that also closes what the merged one leaves open; no release has it.
    """

    number: str
    title: str
    issue: str
    component: str
    variants: tuple[str, ...]
    fixed_in: str
    unfixed_from: str = ""
    earlier: tuple[tuple[str, str], ...] = ()
    closed: bool = False
    complete: str = ""

    def form_in(self, release: str) -> str | None:
        """The form of the fix that a release has; None for the bug. Raises UsageError."""
        at = minor_of(release)
        if self.unfixed_from and at < minor_of(self.unfixed_from):
            return self.variants[0]  # not broken yet
        if self.fixed_in and minor_of(self.fixed_in) <= at:
            return self.variants[0]
        for since, variant in reversed(self.earlier):
            if minor_of(since) <= at:
                return variant
        return self.variants[0] if self.closed else None

    @property
    def strongest(self) -> str:
        """The form under which the least is left open, whichever release has it."""
        return self.complete or self.variants[0]

    @property
    def default(self) -> str | None:
        """The default form."""
        return self.form_in(LATEST)


CATALOGUE: Final[dict[str, FixGate]] = {
    gate.number: gate
    for gate in (
        FixGate(
            number="138324",
            title="pod recreated under the same name leaks its in-flight entry",
            issue="138316",
            component="scheduler",
            variants=("early-return", "uid-threading", "no-stand-in"),
            fixed_in="1.34",
            unfixed_from="1.32",
            complete="no-stand-in",
        ),
        FixGate(
            number="49992",
            title="a watch cache that has just listed accepts watches from before its list",
            issue="49956",
            component="apiserver",
            variants=("list-version",),
            fixed_in="1.8",
        ),
        FixGate(
            number="83911",
            title="a relisted object behind a queued deletion is dropped",
            issue="83810",
            component="client",
            variants=("merged",),
            fixed_in="1.17",
        ),
        FixGate(
            number="86015",
            title="handlers are not notified of changes that a relist found",
            issue="86015",
            component="client",
            variants=("replaced-delta",),
            fixed_in="1.18",
        ),
        FixGate(
            number="115620",
            title="an object deleted while its addition was queued stays in the informer's cache",
            issue="115658",
            component="client",
            variants=("merged",),
            fixed_in="1.27",
        ),
        FixGate(
            number="129334",
            title="every list stands in the server's memory as a whole while it is sent",
            issue="129304",
            component="apiserver",
            variants=("item-by-item",),
            fixed_in="1.33",
        ),
        FixGate(
            number="28886",
            title="a pod whose binding failed keeps its room on the node for ever",
            issue="28883",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.4",
        ),
        FixGate(
            number="72259",
            title="a nomination is unknown until the API server reports it",
            issue="72124",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.11",
        ),
        FixGate(
            number="84578",
            title="a pod deleted while it waits in Permit goes on waiting",
            issue="84554",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.17",
        ),
        FixGate(
            number="93044",
            title="two informers of pods: a pod that fails early is dropped, not queued",
            issue="104521",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.19",
            unfixed_from="1.19",
        ),
        FixGate(
            number="96071",
            title="a resync queues a pod that is being scheduled or waits for an event",
            issue="96071",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.20",
        ),
        FixGate(
            number="96582",
            title="a pod that was bound although the answer was lost is retried for ever",
            issue="96579",
            component="scheduler",
            variants=("merged", "asked-again"),
            fixed_in="1.21",
            complete="asked-again",
        ),
        FixGate(
            number="98829",
            title="an update sends a pod to the backoff queue that serves no backoff",
            issue="98828",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.21",
        ),
        FixGate(
            number="102498",
            title="the nomination of a deleted preemptor stays for ever",
            issue="102339",
            component="scheduler",
            variants=("merged", "by-uid"),
            fixed_in="1.19",
            unfixed_from="1.19",
            complete="by-uid",
        ),
        FixGate(
            number="106102",
            title="a deletion missed by the watch cleans only the cache or only the queue",
            issue="106102",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.20",
        ),
        FixGate(
            number="106412",
            title="an assumed pod expires before its binding is seen",
            issue="106361",
            component="scheduler",
            variants=("never", "fifteen-minutes", "two-minutes"),
            fixed_in="1.25",
            earlier=(("1.20", "two-minutes"), ("1.23", "fifteen-minutes")),
        ),
        FixGate(
            number="106816",
            title="a nomination stays although preemption can no longer help",
            issue="85677",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.24",
        ),
        FixGate(
            number="111773",
            title="a preemption that finds too few candidates leaks its context",
            issue="111773",
            component="scheduler",
            variants=("deferred-cancel",),
            fixed_in="1.22",
        ),
        FixGate(
            number="109245",
            title="the nomination of a pod that was bound meanwhile stays for ever",
            issue="109236",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.21",
            unfixed_from="1.21",
        ),
        FixGate(
            number="122292",
            title="a node that was added with a taint wakes no pod when the taint is removed",
            issue="109437",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.30",
        ),
        FixGate(
            number="125578",
            title="an update queues a pod that is being scheduled",
            issue="118226",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.31",
        ),
        FixGate(
            number="126962",
            title="a pod that is skipped after Pop leaks its in-flight entry",
            issue="120622",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.32",
            unfixed_from="1.28",
        ),
        FixGate(
            number="127016",
            title="a pod popped twice overwrites its in-flight entry",
            issue="120622",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.32",
            unfixed_from="1.28",
        ),
        FixGate(
            number="128748",
            title="attempts that failed with an error make the backoff of a rejection longer",
            issue="128744",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.34",
        ),
        FixGate(
            number="90377",
            title="the late end of a container takes the CPUs of the one that replaced it",
            issue="90303",
            component="kubelet",
            variants=("by-activity",),
            fixed_in="1.18",
        ),
        FixGate(
            number="103979",
            title="CPUs of a pod that is being admitted are taken back before it is",
            issue="103952",
            component="kubelet",
            variants=("counts-at-once",),
            fixed_in="1.22",
            unfixed_from="1.22",
        ),
        FixGate(
            number="105114",
            title="CPUs that a sibling runs on return to the shared set",
            issue="105114",
            component="kubelet",
            variants=("siblings-keep",),
            fixed_in="1.23",
        ),
        FixGate(
            number="123443",
            title="memory of a group of NUMA nodes is given to a single one's pods, and no restart succeeds",
            issue="113035",
            component="kubelet",
            variants=("group-rule",),
            fixed_in="1.32",
        ),
        FixGate(
            number="127074",
            title="a restart compares memory node by node, which depends on who went first",
            issue="113130",
            component="kubelet",
            variants=("sums-by-group",),
            fixed_in="1.32",
        ),
        FixGate(
            number="123971",
            title="pods that run are refused after a restart: memory of init containers is asked for again",
            issue="123971",
            component="kubelet",
            variants=("needs-nothing-new",),
            fixed_in="",
        ),
        FixGate(
            number="126033",
            title="a container starts with a size that was never allocated",
            issue="126033",
            component="kubelet",
            variants=("as-allocated",),
            fixed_in="1.33",
            unfixed_from="1.27",
        ),
        FixGate(
            number="131157",
            title="the condition of a resize names a later resize than the one it is about",
            issue="131157",
            component="kubelet",
            variants=("fixed-when-set",),
            fixed_in="1.34",
            unfixed_from="1.33",
        ),
        FixGate(
            number="141041",
            title="a restart gives a pod with resources of its own its CPUs a second time",
            issue="140989",
            component="kubelet",
            variants=("once",),
            fixed_in="",
            unfixed_from="1.36",
        ),
        FixGate(
            number="129532",
            title="the scheduler gives away room that a kubelet has allocated",
            issue="129532",
            component="kubelet",
            variants=("allocated-too",),
            fixed_in="1.33",
            unfixed_from="1.27",
        ),
        FixGate(
            number="135107",
            title="room that a deferred resize asks for is kept from all pods",
            issue="135107",
            component="kubelet",
            variants=("as-promised",),
            fixed_in="",
            unfixed_from="1.33",
        ),
        FixGate(
            number="81344",
            title="the CPUs of all pods are taken back before a restarted kubelet knows its pods",
            issue="81324",
            component="kubelet",
            variants=("sources-ready",),
            fixed_in="1.18",
        ),
        FixGate(
            number="86320",
            title="the status of a deleted pod is written to the one that has its name now",
            issue="82387",
            component="kubelet",
            variants=("uid-in-patch",),
            fixed_in="1.15",
        ),
        FixGate(
            number="104577",
            title="a pod that has ended takes room on its node until it is cleaned up",
            issue="104560",
            component="kubelet",
            variants=("unless-terminating", "terminal-never"),
            fixed_in="1.22",
        ),
        FixGate(
            number="79148",
            title="a mirror pod is deleted by name, and the new one with it",
            issue="79147",
            component="kubelet",
            variants=("by-uid",),
            fixed_in="1.16",
        ),
        FixGate(
            number="104847",
            title="a static pod that is put back under its uid is never started",
            issue="104648",
            component="kubelet",
            variants=("restarts",),
            fixed_in="1.23",
        ),
        FixGate(
            number="105527",
            title="pods that had ended before the kubelet's restart take room once more",
            issue="105523",
            component="kubelet",
            variants=("first-seen-terminated",),
            fixed_in="1.23",
        ),
        FixGate(
            number="108366",
            title="the end of a pod is reported before the kubelet frees its room",
            issue="106884",
            component="kubelet",
            variants=("when-stopped",),
            fixed_in="1.24",
        ),
        FixGate(
            number="136508",
            title="a pod that the kubelet rejected takes room after all",
            issue="135296",
            component="kubelet",
            variants=("not-fed",),
            fixed_in="",
        ),
        FixGate(
            number="104824",
            title="CPUs of a pod deleted by force are given away while its containers stop",
            issue="104824",
            component="kubelet",
            variants=("until-stopped",),
            fixed_in="",
        ),
        FixGate(
            number="132851",
            title="a resize is reported complete while more of it is to come",
            issue="132851",
            component="kubelet",
            variants=("current-allocation",),
            fixed_in="",
        ),
        FixGate(
            number="134157",
            title="a deleted pod keeps its room until its binding fails",
            issue="134217",
            component="scheduler",
            variants=("merged", "rechecked"),
            fixed_in="1.35",
            complete="rechecked",
        ),
        FixGate(
            number="134730",
            title="a preemption starts again while the last victim is being evicted",
            issue="134249",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.35",
            unfixed_from="1.33",
        ),
        FixGate(
            number="136605",
            title="a crash between two writes leaves a file that the next start refuses",
            issue="84783",
            component="kubelet",
            variants=("one-write",),
            fixed_in="",
        ),
        FixGate(
            number="139162",
            title="a gated pod is never flushed from the unschedulable pool",
            issue="140082",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.37",
        ),
        FixGate(
            number="139450",
            title="a pod requeued by its binding cycle is popped before Done, and lost",
            issue="139186",
            component="scheduler",
            variants=("merged",),
            fixed_in="1.38",
            unfixed_from="1.32",
        ),
        FixGate(
            number="139884",
            title="Pop sleeps although a pod has just entered the backoff queue",
            issue="130976",
            component="scheduler",
            variants=("proposed",),
            fixed_in="",
            unfixed_from="1.33",
            closed=True,
        ),
        FixGate(
            number="140177",
            title="a status patch comes late and tells of a bound pod that it cannot be scheduled",
            issue="139602",
            component="scheduler",
            variants=("preconditions",),
            fixed_in="",
        ),
        FixGate(
            number="141255",
            title="a recreated pod that arrives as one update ends the process",
            issue="85726",
            component="scheduler",
            variants=("proposed",),
            fixed_in="",
        ),
        FixGate(
            number="141645",
            title="an update between failure and requeue is lost, or goes round the backoff",
            issue="141645",
            component="scheduler",
            variants=("proposed", "deletions-too"),
            fixed_in="",
            complete="deletions-too",
        ),
        FixGate(
            number="142294",
            title="a preemption that causes no delete event leaves its preemptor waiting",
            issue="141694",
            component="scheduler",
            variants=("proposed",),
            fixed_in="",
            unfixed_from="1.32",
        ),
        FixGate(
            number="26120",
            title="an owner is let go before all who are to outlive it are known",
            issue="26120",
            component="controllers",
            variants=("pause",),
            fixed_in="",
        ),
        FixGate(
            number="138036",
            title="a rolling update that is scaled in its midst hangs",
            issue="102551",
            component="controllers",
            variants=("proposed",),
            fixed_in="",
        ),
        FixGate(
            number="92743",
            title="a reference into another namespace has the children of a living owner deleted",
            issue="65200",
            component="controllers",
            variants=("coordinates",),
            fixed_in="1.20",
        ),
        FixGate(
            number="105200",
            title="a finished pod of a Job is counted twice while the cache is older than the Job",
            issue="105200",
            component="controllers",
            variants=("removals-expected",),
            fixed_in="1.23",
        ),
        FixGate(
            number="109429",
            title="a pod whose Job is deleted with it keeps its finalizer for ever",
            issue="109429",
            component="controllers",
            variants=("released",),
            fixed_in="1.24",
        ),
        FixGate(
            number="126587",
            title="a namespace that goes loses its network policies while its pods still run",
            issue="126587",
            component="controllers",
            variants=("pods-first",),
            fixed_in="1.33",
        ),
        FixGate(
            number="261",
            title="a snapshot whose making timed out is left in the storage when it is deleted",
            issue="134",
            component="storage",
            variants=("being-created",),
            fixed_in="1.17",
        ),
        FixGate(
            number="283",
            title="a claim, and its volume, go while a snapshot of them is made",
            issue="134",
            component="storage",
            variants=("claim-finalizer",),
            fixed_in="1.18",
        ),
        FixGate(
            number="249",
            title="a retained content loses its mark when its snapshot vanishes first",
            issue="248",
            component="storage",
            variants=("marked-first",),
            fixed_in="1.17",
        ),
        FixGate(
            number="360",
            title="a claim that is being deleted keeps its snapshots from being made",
            issue="349",
            component="storage",
            variants=("present-counts",),
            fixed_in="1.19",
        ),
        FixGate(
            number="1302",
            title="a sidecar that missed a deletion never hears of it again",
            issue="1258",
            component="storage",
            variants=("resync-passes",),
            fixed_in="1.33",
        ),
        FixGate(
            number="1231",
            title="members of a group are deleted one by one beside the group",
            issue="1231",
            component="storage",
            variants=("group-only",),
            fixed_in="1.32",
        ),
        FixGate(
            number="1224",
            title="a retained group vanishes before its content is marked",
            issue="1212",
            component="storage",
            variants=("bound-finalizer",),
            fixed_in="1.32",
        ),
        FixGate(
            number="1339",
            title="a conflict leaves the finalizer on a claim",
            issue="957",
            component="storage",
            variants=("retried",),
            fixed_in="1.36",
        ),
        FixGate(
            number="1354",
            title="members that exist already are taken for empty objects",
            issue="1280",
            component="storage",
            variants=("live-get",),
            fixed_in="1.35",
        ),
        FixGate(
            number="1394",
            title="a deletion that a restore blocked is not tried again",
            issue="1366",
            component="storage",
            variants=("requeued",),
            fixed_in="1.36",
        ),
        FixGate(
            number="581",
            title="a cancelled operation holds the mutex of the metrics for ever",
            issue="581",
            component="storage",
            variants=("unlocked-helper",),
            fixed_in="1.23",
        ),
        FixGate(
            number="651",
            title="a driver that refuses a snapshot is asked again without backoff",
            issue="533",
            component="storage",
            variants=("filtered",),
            fixed_in="1.24",
        ),
        FixGate(
            number="1216",
            title="a retained group that is gone is worked on for ever",
            issue="1214",
            component="storage",
            variants=("own-store",),
            fixed_in="1.32",
        ),
        FixGate(
            number="1303",
            title="a snapshot is deleted, and its content stays because an error was swallowed",
            issue="1301",
            component="storage",
            variants=("returned",),
            fixed_in="1.33",
        ),
        FixGate(
            number="1392",
            title="a deletion that waited for the snapshot to be made is forgotten",
            issue="1388",
            component="storage",
            variants=("became-ready", "looked-at-again"),
            complete="looked-at-again",
            fixed_in="1.36",
        ),
        FixGate(
            number="1460",
            title="deleting a snapshot fails because its content is gone already",
            issue="1460",
            component="storage",
            variants=("not-found-ignored",),
            fixed_in="",
            closed=True,
        ),
        FixGate(
            number="1446",
            title="a content waits for a mark that the client's rate limit holds back",
            issue="1446",
            component="storage",
            variants=("bound-is-enough",),
            fixed_in="",
        ),
        FixGate(
            number="1461",
            title="a group that is not ready yet is not asked for again",
            issue="1461",
            component="storage",
            variants=("requeued",),
            fixed_in="",
            closed=True,
        ),
        FixGate(
            number="67062",
            title="the volume of a claim that the binder has not heard of is reclaimed",
            issue="66287",
            component="controllers",
            variants=("asked-live",),
            fixed_in="1.12",
        ),
        FixGate(
            number="105211",
            title="the volume of a claim that was made anew is reclaimed",
            issue="105131",
            component="controllers",
            variants=("asked-live",),
            fixed_in="1.23",
        ),
        FixGate(
            number="ep311",
            title="a volume that was being made when its claim went is left in the storage",
            issue="131",
            component="storage",
            variants=("in-progress",),
            fixed_in="1.15",
        ),
        FixGate(
            number="ep679",
            title="a volume deleted before its claim is left in the storage",
            issue="546",
            component="storage",
            variants=("finalizer",),
            fixed_in="1.23",
        ),
        FixGate(
            number="ep1448",
            title="a snapshot goes while a volume is restored from it, and the volume is left",
            issue="1449",
            component="storage",
            variants=("source-finalizer",),
            fixed_in="1.36",
        ),
        FixGate(
            number="ep1519",
            title="a restore that failed for good keeps its snapshot for ever",
            issue="1507",
            component="storage",
            variants=("swept",),
            fixed_in="",
            closed=True,
        ),
    )
}

_DEFAULTS: Final[dict[str, str | None]] = {
    number: gate.default for number, gate in CATALOGUE.items()
}


@frozen
class FixGates:
    """The fixes of a run: gate number -> variant, None for unfixed. Gates not named here have their default."""

    chosen: dict[str, str | None] = field(factory=dict)

    def variant(self, number: str) -> str | None:
        """The form of a fix that is in force; None when it is off."""
        if number in self.chosen:
            return self.chosen[number]
        return _DEFAULTS[number]

    def fixed(self, number: str) -> bool:
        """Return whether a fix is in force, in whatever form."""
        return self.variant(number) is not None

    def changed(self) -> dict[str, str]:
        """The gates that are not as by default, with their forms."""
        return {
            number: form
            for number, form in self.to_header().items()
            if form != (_DEFAULTS[number] or OFF)
        }

    def to_header(self) -> dict[str, str]:
        """All gates, for a recording's header."""
        return {number: self.variant(number) or OFF for number in CATALOGUE}


def fix_gates(
    release: str = LATEST, without: tuple[str, ...] = (), variants: tuple[str, ...] = ()
) -> FixGates:
    """The gates of a release, with changes.

    Args:
        release: MAJOR.MINOR; gates whose fix is younger are off.
        without: gate numbers to turn off.
        variants: "NUMBER=VARIANT" to choose another form of a fix; "NUMBER" for its first, which
            puts a fix in force that the release does not have.

    Raises:
        UsageError: an unknown gate, variant or release.
    """
    check_release(release)
    chosen: dict[str, str | None] = {}
    for number, gate in CATALOGUE.items():
        form = gate.form_in(release)
        if form != _DEFAULTS[number]:
            chosen[number] = form
    for number in without:
        _known(number)
        chosen[number] = None
    for entry in variants:
        number, given, variant = entry.partition("=")
        gate = _known(number)
        if not given:
            variant = gate.variants[0]
        if variant not in gate.variants:
            raise UsageError(
                f"fix {number} has no variant {shown(variant)}; it has {', '.join(gate.variants)}"
            )
        chosen[number] = variant
    return FixGates(chosen)


def check_release(release: str) -> None:
    """UsageError for what is no release that can be emulated."""
    if not minor_of("1.0") <= minor_of(release) <= minor_of(LATEST):
        raise UsageError(f"release {shown(release)}: expected 1.0 to {LATEST}")


def from_header(header: dict[str, str]) -> FixGates:
    """The gates of a recording. UsageError for one that is not known, or a form that it does not have."""
    for number, form in header.items():
        gate = _known(number)
        if form not in (OFF, *gate.variants):
            raise UsageError(
                f"fix {number} has no variant {shown(form)}; it has {', '.join(gate.variants)}"
            )
    return FixGates(
        {number: None if variant == OFF else variant for number, variant in header.items()}
    )


def _known(number: str) -> FixGate:
    gate = CATALOGUE.get(number)
    if gate is None:
        raise UsageError(
            f"no fix gate {shown(number)}; known: {', '.join(sorted(CATALOGUE, key=by_number))}"
        )
    return gate
