"""A run's description: the cluster, the workload, faults, invariants and options, in one value.

    scenario   the value: `Scenario`, `Invariant`, `Fault`
    option     `Option`: declared once; command line, help, header and documentation follow from it
    common     options that every scenario has
    setting    its options chosen: what the functions of a scenario are handed
    run        one run, as workloads and invariants see it
    plan       a scenario and its setting
    execution  one execution of a plan, its result, its recording: the one engine
    exploring  many executions of a plan under many schedules
    replaying  a recording again
    loading    from a module or a user's file to a scenario, and back from a recording's header
    user       what a workload is handed: the operations of users and operators
    faults     what may fail, as values
    invariants what must hold, ready for use
    workloads  what users do, ready for use

A user's file needs what stands here and nothing else. Importing it is cheap: the cluster is
imported when the first world is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Fault, Invariant, Scenario, Sometimes

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

__all__ = ["Fault", "Invariant", "Option", "Run", "Scenario", "Setting", "Sometimes", "User"]

_LATE = {
    "Run": "controlplane.scenarios.engine.run",
    "Setting": "controlplane.scenarios.engine.setting",
    "User": "controlplane.scenarios.engine.user",
}


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATE[name]), name)
