"""The loops of leader election: acquire, renew, and what a component does around them.

Points: `election.ready` (a replica that runs before it leads waits until it may), `election.retry` (a candidate tries
again), `election.renew` (the leader renews, or tries again to), and one for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken, Timeout
from actors.log import DEBUG, WARNING
from controlplane.api import identity
from controlplane.client.election import JITTER_TENTHS, Candidate, ElectionConfig
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.loops.clientset import LEASES, Client

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actors import Context
    from controlplane.client.loops.connection import RestConfig

JITTER_OPTIONS = 8


class LeaderElection:
    """One process's part in an election."""

    def __init__(
        self, ctx: Context, server: RestConfig, epoch_ns: int, config: ElectionConfig
    ) -> None:
        self._ctx = ctx
        self._server = server
        self._epoch = epoch_ns
        self._config = config
        self._changed = ctx.condition()
        self._cancelled = False
        self.candidate = Candidate(f"{ctx.actor}_{identity.uid(ctx.serial())}", config)

    def cancel(self) -> None:
        """Stop leading, or trying to."""
        self._cancelled = True
        self._changed.notify_all()

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    async def acquire(self, ctx: Context) -> bool:
        """Try until this process leads; False when it was cancelled instead."""
        config = self._config
        while not self._cancelled:
            if await self._attempt(ctx, ctx.now + config.renew_deadline_ns):
                data = {"lease": config.name, "transitions": self._transitions()}
                ctx.log("election.leading", data=data)
                return True
            share = ctx.choose("jitter", JITTER_OPTIONS, "election retry")
            extra = config.retry_ns * JITTER_TENTHS * share // (10 * JITTER_OPTIONS)
            await self._changed.wait(config.retry_ns + extra, idle=True, point="election.retry")
        return False

    async def renew(self, ctx: Context) -> None:
        """Renew until the lease is lost, or this process was cancelled."""
        config = self._config
        while not self._cancelled:
            await self._changed.wait(config.retry_ns, idle=True, point="election.renew")
            deadline = ctx.now + config.renew_deadline_ns
            while not self._cancelled and not await self._attempt(ctx, deadline):
                if ctx.now >= deadline:
                    self._lost(ctx)
                    return
                wait = min(config.retry_ns, deadline - ctx.now)
                await self._changed.wait(wait, point="election.renew")
                if ctx.now >= deadline:
                    self._lost(ctx)
                    return
        if config.release_on_cancel:
            await self._release(ctx)

    def _lost(self, ctx: Context) -> None:
        ctx.log("election.lost", level=WARNING, data={"lease": self._config.name})

    def _transitions(self) -> int:
        observed = self.candidate.observed
        return observed.transitions if observed is not None else 0

    def _client(self, ctx: Context, deadline: int) -> Client:
        """A client whose requests end by the deadline."""
        if not self._config.bounded_calls:
            return Client(ctx, self._server)
        return Client(ctx, self._server, timeout_ns=max(1, deadline - ctx.now))

    async def _attempt(self, ctx: Context, deadline: int) -> bool:
        """Try once to acquire or renew."""
        try:
            return await self._try(ctx, deadline)
        except (ApiError, LinkBroken, Timeout) as error:
            data = {"lease": self._config.name, "message": str(error)}
            ctx.log("election.failed", level=DEBUG, data=data)
            return False

    async def _try(self, ctx: Context, deadline: int) -> bool:
        candidate, config = self.candidate, self._config
        wanted = candidate.first_try(self._now())
        if wanted is not None:
            try:
                answer = await self._client(ctx, deadline).update(LEASES, wanted)
            except ApiError:
                pass  # another candidate wrote: read the lease
            else:
                candidate.written(answer.tree, self._now())
                return True
        try:
            found = await self._client(ctx, deadline).get(LEASES, config.namespace, config.name)
        except ApiError as error:
            if not is_not_found(error):
                raise
            fresh = candidate.new_lease(self._now())
            made = await self._client(ctx, deadline).create(LEASES, fresh)
            candidate.written(made.tree, self._now())
            return True
        wanted = candidate.challenge(found.tree, self._now())
        if wanted is None:
            return False
        answer = await self._client(ctx, deadline).update(LEASES, wanted)
        candidate.written(answer.tree, self._now())
        return True

    async def _release(self, ctx: Context) -> None:
        wanted = self.candidate.release(self._now())
        if wanted is None:
            return
        try:
            client = self._client(ctx, ctx.now + self._config.renew_deadline_ns)
            answer = await client.update(LEASES, wanted)
        except (ApiError, LinkBroken, Timeout) as error:
            ctx.log("election.failed", level=WARNING, data={"message": str(error)})
        else:
            self.candidate.written(answer.tree, self._now())
            ctx.log("election.released", data={"lease": self._config.name})


class Readiness:
    """The two events between the election and a replica that runs before it leads."""

    def __init__(self, ctx: Context) -> None:
        self.ready = ctx.event()
        """Set by the replica: it may lead from now on."""
        self.elected = ctx.event()
        """Set by the election: the replica leads."""


async def run_warm(
    ctx: Context,
    epoch_ns: int,
    config: ElectionConfig,
    server: RestConfig,
    main: Callable[..., Coroutine[Any, Any, Any]],
    *args: Any,
    **kwargs: Any,
) -> None:
    """Main task of one of several equal processes, each of which runs `main` from the start, with `readiness`.

    The process stands for election when `main` is ready, and ends itself when it loses the lease, as managers of
    controller-runtime do.
    """
    readiness = Readiness(ctx)
    ctx.spawn(main, epoch_ns, *args, name="running", server=server, readiness=readiness, **kwargs)
    await readiness.ready.wait(idle=True, point="election.ready")
    election = LeaderElection(ctx, server, epoch_ns, config)
    await election.acquire(ctx)
    readiness.elected.set()
    await election.renew(ctx)
    _restart(ctx)


def _restart(ctx: Context) -> None:
    """End this process, which is started again."""
    name = ctx.actor
    ctx.faults.crash(name)
    ctx.faults.restart(name)


async def run_elected(
    ctx: Context,
    epoch_ns: int,
    config: ElectionConfig,
    server: RestConfig,
    main: Callable[..., Coroutine[Any, Any, Any]],
    *args: Any,
    **kwargs: Any,
) -> None:
    """Main task of one of several equal processes: `main` runs while this one leads.

    Who loses the lease ends itself, as kube-scheduler and kube-controller-manager do, and is started
    again.
    """
    election = LeaderElection(ctx, server, epoch_ns, config)
    await election.acquire(ctx)
    ctx.spawn(main, epoch_ns, *args, name="leading", server=server, **kwargs)
    await election.renew(ctx)
    _restart(ctx)
