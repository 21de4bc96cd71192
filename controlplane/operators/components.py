"""Real components that take the place of emulated ones: kube-scheduler, kube-controller-manager, or a stand-in."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KINDS", "Component", "Kind", "component_of"]

KUBECONFIG: Final = "{kubeconfig}"
"""Stands for the path of the kubeconfig in a command."""


@frozen
class Kind:
    """A component of Kubernetes: the emulated process whose place it takes, its user, its flags, and further groups.

    The flags are those without which it would not run here: no certificates of its own, no election.
    """

    actor: str
    user: str
    flags: tuple[str, ...]
    groups: tuple[str, ...] = ()


_COMMON: Final = (
    "--kubeconfig={kubeconfig}",
    "--authentication-kubeconfig={kubeconfig}",
    "--authorization-kubeconfig={kubeconfig}",
    "--leader-elect=false",
    "--secure-port=0",
)
KINDS: Final[Mapping[str, Kind]] = {
    "kube-scheduler": Kind("scheduler", "system:kube-scheduler", _COMMON),
    "kube-controller-manager": Kind(
        "controller-manager",
        "system:kube-controller-manager",
        (*_COMMON, "--use-service-account-credentials=false", "--controllers={controllers}"),
        # With one credential for all controllers that user needs the rights of each.
        groups=("system:masters",),
    ),
}
"""The components by the names of their programs."""


@frozen
class Component:
    """A component to be tried, and the words of its command, in which `{kubeconfig}` and `{controllers}` stand."""

    kind: Kind
    command: tuple[str, ...]

    def words(self, kubeconfig: Path, controllers: Sequence[str]) -> list[str]:
        """Return the command with the path of the kubeconfig and the names of the controllers filled in."""
        told = {KUBECONFIG: str(kubeconfig), "{controllers}": ",".join(controllers)}
        found = []
        for word in self.command:
            for name, value in told.items():
                word = word.replace(name, value)
            found.append(word)
        return found


def component_of(text: str) -> Component:
    """Return the component of `NAME=COMMAND`; a command that does not name `{kubeconfig}` gets the usual flags.

    Raises UsageError for a component that is not known, and for a program that is not there.
    """
    name, sign, command = text.partition("=")
    kind = KINDS.get(name)
    if kind is None or not sign:
        known = ", ".join(KINDS)
        raise UsageError(f"--component {text}: expected NAME=COMMAND, where NAME is one of {known}")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--component {text}: {error}") from error
    if not words:
        raise UsageError(f"--component {text}: expected a command after the name")
    if "/" in words[0] and not Path(words[0]).exists():
        raise UsageError(f"--component {name}: {words[0]}: no such file")
    if KUBECONFIG not in command:
        words += kind.flags
    return Component(kind, tuple(words))
