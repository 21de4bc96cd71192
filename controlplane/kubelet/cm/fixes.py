"""Published bugs of the resource managers as switches; the defaults are those of 1.36."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class ManagerFixes:
    """The fixes in force. Numbers are upstream's, of issue and pull request.

    sources_first: stale state is only removed once all sources of pods were heard (81324). Before, the
        first pass after a restart threw the whole state away.
    release_by_activity: a container that stops keeps its CPUs and memory until its pod is inactive
        (90303 / 90377). Before, the late end of an old instance took those of the new one.
    siblings_keep: CPUs that another container of the pod has as well stay with it (105114). Before, they
        went back to the default set while the sibling ran on them.
    group_rule: memory is not taken across groups of NUMA nodes (113035 / 123443). Before, the state
        could not be validated at the next start.
    sums_by_group: a restart compares the sums of a group of nodes (113130 / 127074). Before, each
        node's own, which depend on history.
    one_write: CPUs leave the default set and reach their container in one write (84783 / 136605,
        proposed). Upstream writes twice, and a crash in between keeps the kubelet from starting.
    needs_nothing_new: a pod that has its memory asks for none of its init containers' again when a
        restarted kubelet admits it once more (123971, open; the repair is ours).
    pods_once: a pod with resources of its own that has its bubble is not given another
        (140989 / 141041 and 140906 / 141077, after 1.36).
    """

    sources_first: bool = True
    release_by_activity: bool = True
    siblings_keep: bool = True
    group_rule: bool = True
    sums_by_group: bool = True
    one_write: bool = False
    needs_nothing_new: bool = False
    pods_once: bool = False


AS_RELEASED: Final = ManagerFixes()
