"""`controlplane serve [FILE...]`: the whole control plane at a pace, for kubectl and every other client."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from actors.pace import MAX, Pacer
from controlplane.api.times import SECOND, parse_time
from controlplane.cli import output
from controlplane.cli.options import feature_gates_option, gate_options, seed_option
from controlplane.cli.scheduler_options import scheduler_options

if TYPE_CHECKING:
    from controlplane.apiserver.http.kubeconfig import Address

KUBECONFIG = "controlplane.kubeconfig"
FILES_WANTED = 65_536


class Speed(click.ParamType[Pacer]):
    """A positive number, "max", or "paused"."""

    name = "speed"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Pacer:
        """The pacer it means."""
        if value == "paused":
            return Pacer(paused=True)
        try:
            speed = MAX if value == "max" else float(str(value).removesuffix("x"))
        except ValueError:
            speed = -1.0
        if not speed > 0 or (speed == MAX and value != "max"):
            self.fail(f"{value!r}: expected a positive number, max, or paused", param, ctx)
        return Pacer(speed)


class Epoch(click.ParamType[int]):
    """A time as RFC 3339, or "now"."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds since 1970, whole seconds."""
        if value == "now":
            return time.time_ns() // SECOND * SECOND
        try:
            return parse_time(str(value)) // SECOND * SECOND
        except ValueError:
            self.fail(f"{value!r}: expected a time like 2026-01-01T00:00:00Z, or now", param, ctx)


def _token(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A token that fits into an Authorization header; None for one to be made."""
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        raise click.BadParameter("expected ASCII characters without spaces")
    return value


@click.command("serve", short_help="Serve a cluster to kubectl, in paced time.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(0, 100_000),
    help="Nodes to make [default: 3 if the files bring none].",
)
@click.option("--node-cpu", default="8", show_default=True, help="CPU of each made node.")
@click.option("--node-memory", default="32Gi", show_default=True, help="Memory of each made node.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default="a free one",
    help="Port to listen on.",
)
@click.option(
    "--speed",
    "pace",
    type=Speed(),
    default="1",
    show_default=True,
    metavar="N|max|paused",
    help="Virtual seconds per second; max leaps over every wait while work is under way.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default=KUBECONFIG,
    show_default=True,
    help="Where to write how to reach it.",
)
@click.option("--tls/--no-tls", default=True, help="HTTPS with a certificate made for the session.")
@click.option(
    "--token",
    metavar="TEXT",
    callback=_token,
    help='Bearer token; "" lets everybody in [default: random].',
)
@click.option(
    "--epoch",
    "epoch_ns",
    type=Epoch(),
    default="now",
    show_default=True,
    help="Wall time at which virtual time begins.",
)
@click.option(
    "--strategy",
    type=click.Choice(["fifo", "random-walk"]),
    default="fifo",
    show_default=True,
    help="Who answers the choices.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave log.jsonl, run.rec and objects.yaml there at the end.",
)
@click.option(
    "--log-level",
    type=click.Choice(["trace", "debug", "info", "warning"]),
    default="trace",
    show_default=True,
    help="What log.jsonl keeps; trace is everything.",
)
@click.option(
    "--store",
    default="memory",
    show_default=True,
    metavar="memory|sqlite:FILE",
    help="Where objects live; in a file every acknowledged write survives, and a later session goes on from it.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="RUN.REC",
    help="Repeat a recorded session of the same files, with its requests and without a network.",
)
@scheduler_options
@seed_option()
@gate_options
@feature_gates_option()
def command(
    host: str,
    port: int,
    pace: Pacer,
    kubeconfig: Path,
    tls: bool,
    token: str | None,
    out: Path | None,
    **asked: Any,
) -> int:
    """Emulate a whole control plane in paced time and serve its API over HTTP, until Ctrl-C.

    Writes a kubeconfig for kubectl and every other client, and says on one line how to use it. Time
    can be paused, stepped and resumed meanwhile: see `controlplane time`.

    Exit status 1 when the emulation ended by itself: an invariant broke, an actor failed, or a
    --replay met a difference.
    """
    from controlplane.emulation import Settings
    from controlplane.serving import Rim, Serving

    serving = Serving.prepare(Settings(**asked, keep_log=out is not None))
    try:
        if asked["replay"] is not None:
            serving.run()
        else:
            _raise_file_limit()
            if token is None:
                token = secrets.token_urlsafe(24)
            serving.serve(Rim(host, port, tls, token), pace, lambda at: _announce(kubeconfig, at))
    finally:
        serving.cluster.store.close()
    output.echo(serving.last_words())
    if out is not None:
        serving.save(out)
        output.echo(f"written: {out}/log.jsonl, {out}/run.rec, {out}/objects.yaml")
    return 0 if serving.ended_well else 1


def _announce(kubeconfig: Path, address: Address) -> None:
    from controlplane.apiserver.http import kubeconfig as files

    files.write(kubeconfig, address)
    output.echo(f"kubectl --kubeconfig {kubeconfig} get nodes   # {address.url}, Ctrl-C ends it")


def _raise_file_limit() -> None:
    """Every client is an open file: take as many as the system allows, as Go programs do."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
