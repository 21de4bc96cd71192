"""Scheduler plugins that scenarios use: they hold pods, or refuse them."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import SECOND
from controlplane.scheduler.framework.interface import (
    Code,
    PermitPlugin,
    PreBindPlugin,
    Status,
    StatusError,
    WaitingPreBindPlugin,
)


class Hold(PermitPlugin):
    """Lets a pod labelled hold=yes wait five seconds in Permit; one labelled hold=key lets all go."""

    name = "Hold"

    def __init__(self, args: Any, handle: Any) -> None:
        self.handle = handle

    def permit(self, state: Any, pod: Any, node_name: str) -> tuple[Status | None, int]:
        """Wait, or go."""
        if pod.labels.get("hold") == "key":
            for waiting in list(self.handle.waiting_pods.values()):
                waiting.allow(self.name)
        if pod.labels.get("hold") == "yes":
            return Status(Code.WAIT), 5 * SECOND
        return None, 0


class Refuse(PreBindPlugin):
    """Fails every pod in PreBind."""

    name = "Refuse"

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        """It has work to do."""
        return

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> tuple[()]:
        """An error."""
        raise StatusError(Status(Code.ERROR, ("no",), self.name))


class RefuseOnce(Refuse):
    """Fails every pod's first attempt in PreBind."""

    name = "RefuseOnce"

    def __init__(self, args: Any, handle: Any) -> None:
        self.refused: dict[str, Any] = {}

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> tuple[()]:
        """An error the first time; then nothing is left to be written."""
        if self.refused.setdefault(pod.name, state) is state:
            raise StatusError(Status(Code.ERROR, ("not yet",), self.name))
        return ()


class RefuseLabelled(Refuse):
    """Fails the first attempt of pods labelled refuse=once in PreBind."""

    name = "RefuseLabelled"

    def __init__(self, args: Any, handle: Any) -> None:
        self.refused: dict[str, Any] = {}

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> tuple[()]:
        """An error the first time."""
        asked = pod.labels.get("refuse") == "once"
        if asked and self.refused.setdefault(pod.uid, state) is state:
            raise StatusError(Status(Code.ERROR, ("not yet",), self.name))
        return ()


class RefuseThrice(Refuse):
    """Fails every pod's first three attempts that get so far in PreBind."""

    name = "RefuseThrice"

    def __init__(self, args: Any, handle: Any) -> None:
        self.refused: dict[str, list[Any]] = {}

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> tuple[()]:
        """An error three times; then nothing is left to be written."""
        attempts = self.refused.setdefault(pod.uid, [])
        if state not in attempts:
            attempts.append(state)
        if len(attempts) <= 3:
            raise StatusError(Status(Code.ERROR, ("not yet",), self.name))
        return ()


class Provision(WaitingPreBindPlugin):
    """A pod labelled provision=slow waits in PreBind for something that takes a minute, and in vain."""

    name = "Provision"
    bind_timeout = 60 * SECOND

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        """Only pods with the label have to wait."""
        return None if pod.labels.get("provision") == "slow" else Status(Code.SKIP)

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> tuple[()]:
        """Nothing is written."""
        return ()

    def is_bound(self, state: Any, pod: Any, node_name: str) -> bool:
        """Not yet."""
        return False


class ProvisionLabelled(Provision):
    """A pod labelled provision=soon waits in PreBind for something that takes six seconds."""

    name = "ProvisionLabelled"
    looks = 6

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        """Only pods with the label have to wait."""
        return None if pod.labels.get("provision") == "soon" else Status(Code.SKIP)

    def is_bound(self, state: Any, pod: Any, node_name: str) -> bool:
        """Act after this many checks, one per second."""
        looks: int = (state.read("scenarios.looks") or 0) + 1
        state.write("scenarios.looks", looks)
        return looks >= self.looks
