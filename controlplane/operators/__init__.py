"""Operators of other people, unmodified, as processes of an emulated cluster: what they do under perturbation plans.

    description  the file that names an operator: manifests, commands, workload, what is tried and must hold
    container    what the container of a pod sees: environment, files, credentials
    quiescence   whether a process is at work, from its requests and its use of the processor
    observation  what a run left: end state, history, messages, processes
    masks        what differs between runs without faults, and is not compared
    generation   perturbation plans made from runs without faults
    invariants   functions of a user that say what is wrong with a state
    drifts       what is changed under an operator or taken away from it, and verdicts
    oracles      what is wrong with a run, compared with those
    campaign     which plan is tried next; confirmation by repeats; what was found
    sieve        plan files of Sieve as plans of this project
    report       what was tried and found, for people and machines
    loops        what runs: one session, its processes, a campaign

Decisions are plain functions over values; only `loops` awaits. In Python:

    from controlplane.operators import Limits, as_text, explore, read

    result = explore(read("operator.yaml"), Limits(seconds=60))
    assert result.ok, as_text(result)

Names are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.operators.campaign import Finding, Result
    from controlplane.operators.description import Operator, operator, read
    from controlplane.operators.exploring import Limits, explore
    from controlplane.operators.loops.session import Conditions, performed
    from controlplane.operators.observation import Record
    from controlplane.operators.oracles import Alarm
    from controlplane.operators.report import as_text, as_tree

__all__ = [
    "Alarm",
    "Conditions",
    "Finding",
    "Limits",
    "Operator",
    "Record",
    "Result",
    "as_text",
    "as_tree",
    "explore",
    "operator",
    "performed",
    "read",
]

_PLACES = {
    "controlplane.operators.campaign": ("Finding", "Result"),
    "controlplane.operators.description": ("Operator", "operator", "read"),
    "controlplane.operators.exploring": ("Limits", "explore"),
    "controlplane.operators.loops.session": ("Conditions", "performed"),
    "controlplane.operators.observation": ("Record",),
    "controlplane.operators.oracles": ("Alarm",),
    "controlplane.operators.report": ("as_text", "as_tree"),
}
"""The modules that define the names."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
