"""The files of static pods as a source of pods: all of them at the start, then each that is reported as changed.

Point: `kubelet.file-source` (before a file is read that changed). The files outlive the process: they lie on the
actor's disk (`static_pods.FOLDER`). Upstream: pkg/kubelet/config/file.go; the list every 20 s is left out, as it
would find nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from controlplane.kubelet.pod.pod_config import FILE
from controlplane.kubelet.pod.static_pods import FOLDER, Manifests

if TYPE_CHECKING:
    from actors import Context
    from controlplane.kubelet.loops.shared import Shared


@attrs.frozen
class FileChanged:
    """A file of static pods was written or removed: what inotify tells."""

    file: str


async def run(ctx: Context, shared: Shared) -> None:
    """Tell of what the files say."""
    manifests = Manifests(shared.node.name)
    names = ctx.disk.keys()
    for key in names:
        if key.startswith(FOLDER):
            _read(ctx, shared, manifests, key[len(FOLDER) :])
    shared.heard(shared.config.push(FILE, manifests.pods()))
    while True:
        message = await ctx.recv(idle=True)
        changed = message.payload
        if isinstance(changed, FileChanged):
            await ctx.region("kubelet.file-source")
            _read(ctx, shared, manifests, changed.file)
            shared.heard(shared.config.push(FILE, manifests.pods()))


def _read(ctx: Context, shared: Shared, manifests: Manifests, file: str) -> None:
    try:
        manifests.read(file, ctx.disk.read(FOLDER + file), shared.now())
    except (ValueError, KeyError, TypeError) as error:
        shared.error(f"{file}: couldn't parse as pod({error}), please check config file")
