"""The points of the scheduler, from the table that its code keeps."""

from __future__ import annotations

from docs._ext.markdown import escape, table


def page() -> str:
    """Return a table of the scheduler's points and what each stands before."""
    from controlplane.scheduler.loops.points import POINTS

    return (
        table(("point", "before"), ((f"`{name}`", escape(text)) for name, text in POINTS.items()))
        + "\n"
    )
