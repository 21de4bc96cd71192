"""Text in the form of klog, with the messages and keys that the components of Kubernetes use.

`I0101 00:00:02.000000       1 schedule_one.go:785] "Attempting to schedule pod" pod="default/web"`: the
file is upstream's, and in the place of the line stands the step of the run, so that `controlplane logs
why STEP` leads on from there. Upstream: k8s.io/klog/v2 (format); the components' modules beside this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import msgspec

from controlplane.logs.export.encoding import compact
from controlplane.logs.export.epoch import epoch_of, moment
from controlplane.logs.export.klog.apiserver import request
from controlplane.logs.export.klog.controllers import Controllers
from controlplane.logs.export.klog.kubelet import PLEG, Kubelets
from controlplane.logs.export.klog.said import Said, Teller, key_of
from controlplane.logs.export.klog.scheduler import Scheduler
from controlplane.logs.reading import Events, Line

__all__ = ["VERBOSITY", "lines"]

VERBOSITY = 10
"""Everything that any component says."""


def lines(log: Events, verbosity: int = VERBOSITY, actor: str = "") -> Iterator[str]:
    """The text of the file, a line each; messages above `verbosity` are left out, as with -v.

    With `actor` (* stands for anything) only what that process says: of a write its sender speaks.
    """
    epoch = epoch_of(log)
    tellers: dict[str, list[Teller]] = {"apiserver.audited": [request]}
    for component in (Scheduler(), Kubelets(), Controllers()):
        for event, teller in component.tellers.items():
            tellers.setdefault(event, []).append(teller)
    for line in _together(log):
        for teller in tellers.get(line.event, ()):
            for said in teller(line):
                if said.verbosity <= verbosity and _speaks(line, actor):
                    yield _text(line, said, epoch)


def _speaks(line: Line, actor: str) -> bool:
    if not actor:
        return True
    speaker = line.data.get("by", "") if line.event == "apiserver.write" else line.actor
    return fnmatchcase(speaker, actor)


def _together(log: Iterable[Line]) -> Iterator[Line]:
    """The events, where all pods of one update of a kubelet's source are one event."""
    held: list[Line] = []
    for line in log:
        alike = line.event == "kubelet.heard" and line.data.get("operation") != PLEG
        if held and not (alike and _same_update(held[0], line)):
            yield _as_one(held)
            held = []
        if alike:
            held.append(line)
        else:
            yield line
    if held:
        yield _as_one(held)


def _same_update(one: Line, other: Line) -> bool:
    return (one.step, one.actor, one.data) == (other.step, other.actor, other.data)


def _as_one(held: list[Line]) -> Line:
    data = {
        **held[0].data,
        "pods": [key_of(line) for line in held],
        "uids": [line.uid for line in held],
    }
    return msgspec.structs.replace(held[0], data=data)


def _text(line: Line, said: Said, epoch: int) -> str:
    stamp = moment(epoch, line.t).strftime("%m%d %H:%M:%S.%f")
    pairs = list(said.values.items())
    if said.severity == "E":  # klog writes an error first
        pairs.sort(key=lambda pair: pair[0] != "err")
    values = "".join(f" {key}={compact(value)}" for key, value in pairs)
    header = f"{said.severity}{stamp} {1:>7} {said.file}:{line.step}]"
    return f"{header} {compact(said.text)}{values}\n"
