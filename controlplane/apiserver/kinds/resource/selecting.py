"""Selection of devices for the scheduler: compiled expressions, and their answers about devices seen before.

A device of a ResourceSlice does not change, so neither does what an expression says of it. Answers are kept with their
cost, so that a limit on costs does not depend on what is kept.
"""

from __future__ import annotations

from controlplane.api.device_selection import DeviceSelectorError, Selection
from controlplane.api.tree import Tree
from controlplane.sharing.memory import IdentityCache

__all__ = ["select_device"]

_KEPT = 8192
_answers: IdentityCache[Selection | DeviceSelectorError] = IdentityCache("selected devices", _KEPT)


def select_device(expression: str, driver: str, device: Tree) -> Selection:
    """Return whether an expression selects a device of a driver. DeviceSelectorError."""
    key = expression, driver
    known = _answers.get(device, key)
    if known is None:
        known = _answers.put(device, _ask(expression, driver, device), key)
    if isinstance(known, DeviceSelectorError):
        raise DeviceSelectorError(str(known), compiling=known.compiling, cost=known.cost)
    return known


def _ask(expression: str, driver: str, device: Tree) -> Selection | DeviceSelectorError:
    # The expression language is loaded with the first expression.
    from controlplane.apiserver.kinds.custom.cel import CelError
    from controlplane.apiserver.kinds.custom.cel.metering import Meter
    from controlplane.apiserver.kinds.resource.device_expressions import (
        COST_LIMIT,
        CompileError,
        device_selector,
    )

    meter = Meter(COST_LIMIT)
    try:
        found = device_selector(expression).matches(driver, device, meter)
    except CompileError as error:
        return DeviceSelectorError(str(error), compiling=True)
    except CelError as error:
        return DeviceSelectorError(str(error), compiling=False, cost=meter.spent)
    return Selection(found, meter.spent)
