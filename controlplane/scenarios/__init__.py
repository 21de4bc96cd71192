"""A run's description: the cluster, the workload, faults, invariants and options, in one value.

    authoring   what a scenario is made of, ready for use: workloads, faults, worlds
    invariants  what must hold, ready for use
    inputs      from files to what a run is given
    engine      one execution of a scenario with its options chosen
    search      many executions: exploring, replaying, forking, shrinking
    churns      workloads that aim at nothing in particular

A file of a user needs the names given here, `authoring` and `invariants`. Importing this package is cheap: the
cluster is imported when the first world is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Fault, Invariant, Scenario, Sometimes

if TYPE_CHECKING:
    from controlplane.scenarios.engine.plan import Plan, plan_of
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User
    from controlplane.scenarios.search.exploring import Campaign
    from controlplane.scenarios.search.findings import load as load_finding
    from controlplane.scenarios.search.findings import try_again

__all__ = [
    "Campaign",
    "Fault",
    "Invariant",
    "Option",
    "Plan",
    "Run",
    "Scenario",
    "Setting",
    "Sometimes",
    "User",
    "load_finding",
    "plan_of",
    "try_again",
]

_FINDINGS = "controlplane.scenarios.search.findings"
_LATE = {
    "Campaign": "controlplane.scenarios.search.exploring",
    "Plan": "controlplane.scenarios.engine.plan",
    "plan_of": "controlplane.scenarios.engine.plan",
    "Run": "controlplane.scenarios.engine.run",
    "Setting": "controlplane.scenarios.engine.setting",
    "User": "controlplane.scenarios.engine.user",
    "load_finding": _FINDINGS,
    "try_again": _FINDINGS,
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name == "load_finding":
        return import_module(_FINDINGS).load
    return getattr(import_module(_LATE[name]), name)
