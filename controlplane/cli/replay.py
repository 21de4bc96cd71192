"""`controlplane replay RECORDING`: any recording again."""

from __future__ import annotations

from controlplane.cli.search import replay_command

command = replay_command

__all__ = ["command"]
