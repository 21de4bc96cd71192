"""Restarts of containers, and their back-off.

Upstream: pkg/kubelet/container (ShouldContainerBeRestarted, restart rules) and client-go's
flowcontrol back-off as the container runtime manager uses it.
"""

from __future__ import annotations

from typing import Final

import attrs

from controlplane.api.containers import Container, ContainerRestartRule
from controlplane.api.times import SECOND

INITIAL_DELAY: Final = 10 * SECOND
LARGEST_DELAY: Final = 300 * SECOND
FORGET_AFTER: Final = 2 * LARGEST_DELAY
"""A container that ran this long after its last restart starts over with no delay."""


@attrs.define
class BackOff:
    """The crash-loop delay of one container: none, 10 s, 20 s ... 5 min; lost with the kubelet."""

    delay: int = 0
    _updated: int = 0

    def held_until(self, finished_at: int, now: int) -> int | None:
        """Until when a container that ended then must wait; None when it may start."""
        if not self.delay or finished_at - self._updated > FORGET_AFTER:
            return None
        until = finished_at + self.delay
        return until if now < until else None

    def next(self, finished_at: int, now: int) -> None:
        """Notes a restart: the next one waits twice as long."""
        if not self.delay or finished_at - self._updated > FORGET_AFTER:
            self.delay = INITIAL_DELAY
        else:
            self.delay = min(2 * self.delay, LARGEST_DELAY)
        self._updated = now


def may_restart(container: Container, role: str, pod_policy: str, exit_code: int) -> bool:
    """Return whether a container starts again after this exit code.

    `role` is init, sidecar or app. Rules of the container come first, then its own policy, then
    the pod's.
    """
    if role == "sidecar":
        return True
    for rule in container.restart_policy_rules:
        if rule.action == "Restart" and _applies(rule, exit_code):
            return True
    policy = container.restart_policy or pod_policy
    if role == "init" and policy == "Always":
        policy = "OnFailure"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _applies(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None:
        return False
    return (exit_code in codes.values) is (codes.operator == "In")
