"""Periodic work and the end of a run: how far ahead a run follows work that still changes objects.

An emulated run ends when only periodic work is left. Work that still leads somewhere (an autoscaler on
its way, a progress deadline, the first Job of a cron job) is awaited, up to a horizon of virtual time.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.times import SECOND

HORIZON_NS: Final = 3600 * SECOND
"""The longest virtual time for which work that comes again keeps a run from settling."""
