"""The token manager: a task for each pod that can read its tokens asks for them and renews them.

Tokens are files in the volumes of the pod, on the disks of the machine. Where nothing could read them none is asked
for: only pods whose programs the emulated shell runs have tokens, and, where clients may enter containers, all pods.
Points: `kubelet.tokens` (before each request for a token, and while the task waits for the next).
Upstream: pkg/kubelet/token. There the pod's next sync finds that a token is to be renewed; here its time does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.api.container_inside import volume_place
from controlplane.api.times import SECOND
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import SERVICE_ACCOUNTS
from controlplane.kubelet.pod.references import account_of
from controlplane.kubelet.pod.tokens import PodTokens, Token, body_of, runs_programs, sources_of
from controlplane.shell.files import NoSpace

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.tokens import Source

SERVER_ERROR = 500
JITTER_OPTIONS = 3
JITTER_NS = 5 * SECOND
"""A token is renewed up to ten seconds before it has to be."""


class TokenManager:
    """The tokens of one kubelet's pods.

    `told` wakes the worker of a pod, by uid. `enters`: clients may enter any container and read its files.
    """

    def __init__(self, shared: Shared, told: Callable[[str], None], *, enters: bool) -> None:
        self._shared = shared
        self._told = told
        self._enters = enters
        self._pods: dict[str, PodTokens | None] = {}
        """By uid; None of a pod in whose files nothing looks."""

    def look(self, pod: Pod, volume: str) -> str | None:
        """Return whether a volume of a pod has its tokens (`PodTokens.look`); the first question begins that."""
        if pod.uid not in self._pods:
            self._pods[pod.uid] = found = self._begin(pod)
        else:
            found = self._pods[pod.uid]
        return "" if found is None else found.look(volume)

    def _begin(self, pod: Pod) -> PodTokens | None:
        sources = sources_of(pod)
        if not sources or not (self._enters or runs_programs(pod)):
            return None
        found = PodTokens(pod, sources)
        self._shared.ctx.spawn(self._keep, found, name="token")
        return found

    def forget(self, uid: str) -> None:
        """Nothing is left of the pod: its tokens are not renewed, and their files go."""
        found = self._pods.pop(uid, None)
        if found is not None:
            for source in found.tokens:
                self._write(found.pod, source, None)

    async def _keep(self, ctx: Context, pod: PodTokens) -> None:
        """Ask for the tokens of a pod, and again when they are to be renewed."""
        shared, jitter = self._shared, 0
        while True:
            for source in pod.due(shared.now(), jitter):
                await ctx.point("kubelet.tokens")
                await self._ask(ctx, pod, source)
            self._told(pod.pod.uid)
            jitter = JITTER_NS * ctx.choose("jitter", JITTER_OPTIONS, "renewal of a token")
            wait = max(pod.next_request(shared.now(), jitter) - shared.now(), 0)
            await ctx.sleep(wait, idle=not pod.promising, point="kubelet.tokens")
            if self._pods.get(pod.pod.uid) is not pod:
                return

    async def _ask(self, ctx: Context, pod: PodTokens, source: Source) -> None:
        shared, about = self._shared, pod.pod
        account = account_of(about)
        call = Call(
            "create", SERVICE_ACCOUNTS, about.namespace, account, "token", body=body_of(about, source)
        )  # fmt: skip
        try:
            answer = await Client(ctx, shared.server).send(call)
            token = Token.of(answer.tree)  # type: ignore[union-attr]  # a TokenRequest is no stored object
            self._write(about, source, token.text.encode())
        except (ApiError, LinkBroken, NoSpace) as error:
            refused = isinstance(error, ApiError) and error.code < SERVER_ERROR
            text = pod.failed(source, str(error), shared.now(), promising=not refused)
            shared.error(text, about)
        else:
            pod.took(source, token)

    def _write(self, pod: Pod, source: Source, data: bytes | None) -> None:
        place = volume_place(pod.uid, source.volume)
        self._shared.host.disks.put(place, source.path, data)
