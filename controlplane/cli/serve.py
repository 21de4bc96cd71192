"""`controlplane serve [FILE...]`: the whole control plane at a pace, for kubectl and every other client."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from attrs import field, frozen

from actors.pace import MAX, Pacer
from controlplane.cli import output, reporting
from controlplane.cli.options import (
    declared_options,
    grouped,
    log_level_option,
    out_option,
    replay_option,
    show_secrets_option,
)
from controlplane.cli.run import prepare
from controlplane.errors import UsageError, plural
from controlplane.logs.reading import RECORDING
from controlplane.scenarios import manifest_run as files
from controlplane.scenarios.search import loading, replaying
from controlplane.serving import scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.apiserver.http.foreign_tokens import Key
    from controlplane.apiserver.http.kubeconfig import Address
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.serving.session import Rim
    from controlplane.serving.session_files import SessionFiles

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


@frozen
class Entrance:
    """The options of `serve` that say where and to which clients the API is open."""

    host: str
    port: int
    tls: bool
    http2: bool
    http2_streams: int
    goaway_chance: float
    open_to_everybody: bool
    token: str | None = field(repr=False)
    key_files: tuple[Path, ...]
    record_token_key: bool
    origins: tuple[str, ...]

    def check(self) -> None:
        """Refuse to admit every client of a network without a confirmation. Raises UsageError."""
        from controlplane.apiserver.http.origin import is_local

        if self.token == "" and not self.open_to_everybody and not is_local(self.host):
            raise UsageError(
                f'--host {self.host} with --token "" makes every client that reaches it an'
                " administrator: confirm with --open-to-everybody"
            )

    def rim(self, run: Execution, *, ui: bool) -> Rim:
        """The same for the session, with a random token unless one is given. Raises UsageError for the keys."""
        from controlplane.apiserver.loops.http_host import Limits
        from controlplane.serving.session import Rim

        return Rim(
            self.host,
            self.port,
            self.tls,
            self.http2,
            secrets.token_urlsafe(24) if self.token is None else self.token,
            keys=tuple(_keys(self.key_files)),
            token_key=_token_key(run),
            record_token_key=self.record_token_key,
            ui=ui,
            origins=self.origins,
            limits=Limits(http2_streams=self.http2_streams or Limits().http2_streams),
            goaway_chance=self.goaway_chance,
        )


@frozen
class Leftovers:
    """The options of `serve` that say what it leaves."""

    out: Path | None
    out_limit: int | None
    show_secrets: bool


def _token(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A token that fits into an Authorization header; None for one to be made."""
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        raise click.BadParameter("expected ASCII characters without spaces")
    return value


def _origins(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Origins as browsers write them: scheme, host and port, without a path."""
    for value in values:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or f"{parts.scheme}://{parts.netloc}" != value:
            raise click.BadParameter(f"{value!r}: expected http://HOST:PORT or https://HOST:PORT")
    return values


def _name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """A name that needs no quotes anywhere."""
    if not value or not all(char.isascii() and (char.isalnum() or char in "-_.") for char in value):
        raise click.BadParameter("expected letters, digits, '-', '_' and '.'")
    return value


@click.command("serve", short_help="Serve a cluster to kubectl, in paced time.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
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
@click.option(
    "--name",
    "context",
    default="controlplane",
    show_default=True,
    callback=_name,
    help="Name of this cluster in the kubeconfig; clusters that run at the same time need one each.",
)
@click.option(
    "--open-to-everybody",
    is_flag=True,
    help='Confirm --token "" with a --host beyond this machine: every client that reaches it is administrator.',
)
@click.option("--tls/--no-tls", default=True, help="HTTPS with a certificate made for the session.")
@click.option(
    "--http2/--disable-http2-serving",
    default=True,
    help="Whether clients may choose HTTP/2 over TLS.",
)
@click.option(
    "--http2-max-streams-per-connection",
    "http2_streams",
    type=click.IntRange(0, (1 << 31) - 1),
    default=0,
    show_default="0: 100, as in kube-apiserver",
    help="Concurrent streams of a client's HTTP/2 connection.",
)
@click.option(
    "--goaway-chance",
    type=click.FloatRange(0, 0.02),
    default=0.0,
    show_default="0: never",
    metavar="NUMBER",
    help=(
        "Share of requests over HTTP/2, at most 0.02, whose client is told to open another connection (GOAWAY), as in "
        "kube-apiserver. Requests under way go on."
    ),
)
@click.option(
    "--token",
    metavar="TEXT",
    callback=_token,
    help='Bearer token; "" admits every client [default: random].',
)
@click.option(
    "--service-account-key-file",
    "key_files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="PEM file with keys that others sign tokens of service accounts with; repeatable.",
)
@click.option(
    "--record-token-key/--no-record-token-key",
    default=True,
    help="Whether the recording holds the key that signs tokens, so that a replay gives the same ones.",
)
@click.option(
    "--cors-allowed-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    callback=_origins,
    help="Pages of this origin, http://localhost:3000 for instance, may send requests; repeatable.",
)
@click.option(
    "--ui",
    is_flag=True,
    help="A page to look at the cluster, and into every step; keeps the whole log and recording in memory.",
)
@declared_options(scenario.SCENARIO, but=(files.FILES,))
@replay_option()
@out_option()
@click.option(
    "--out-limit",
    type=click.IntRange(min=1),
    metavar="MiB",
    help="How much --out may leave of log and recording: old parts of the log go, and a recording that is larger"
    " than half of it is given up. Without it everything is kept, on the disk.",
)
@show_secrets_option()
@log_level_option()
@grouped("entrance", Entrance)
@grouped("leaves", Leftovers)
def command(
    entrance: Entrance,
    leaves: Leftovers,
    pace: Pacer,
    kubeconfig: Path,
    context: str,
    ui: bool,
    replay: Path | None,
    log_level: str,
    **values: Any,
) -> int:
    """Emulate a whole control plane in paced time and serve its API over HTTP, until Ctrl-C.

    Writes a kubeconfig for kubectl and every other client, and says on one line how to use it. Time
    can be paused, stepped and resumed meanwhile: see `controlplane time`.

    Exit status 1 when the emulation ended by itself: an invariant broke, an actor failed, or a
    --replay met a difference.
    """
    from actors import collector

    with collector.held():
        from controlplane.apiserver.http import kubeconfig as entries
        from controlplane.serving import neighbours, session

    entrance.check()
    out, show_secrets = leaves.out, leaves.show_secrets
    if leaves.out_limit is not None and (out is None or replay is not None):
        raise UsageError("--out-limit is of what a served session leaves with --out")
    source = loading.from_module(scenario.__name__)
    if replay is None and values.get("epoch") is None:
        values["epoch"] = "now"
    _known(values.get("release"))
    kept = ui or out is not None
    with collector.held():
        run = prepare(source, values, replay, keep_log=kept, log_level=log_level)
    if replay is not None and (note := replaying.note_of(run.plan.header())):
        output.echo(f"{replay} {note}")
    leaving = None
    if out is not None and replay is None:
        leaving = _leaving(run, out, leaves.out_limit, show_secrets=show_secrets, ui=ui)
    reached: list[Address] = []

    def ready(address: Address) -> None:
        _announce(kubeconfig, context, address, run)
        if ui:
            _announce_page(address)
        reached.append(address)

    try:
        if replay is not None:
            run.execute()
        else:
            _raise_file_limit()
            rim = entrance.rim(run, ui=ui)
            session.serve(run, rim, pace, ready, keep=kept, leaving=leaving)
    except BaseException:
        if leaving is not None:
            leaving.close()
        raise
    finally:
        for address in reached:
            entries.remove(kubeconfig, address, context, alone=neighbours.alone)
        run.cluster.store.close()
    output.echo(session.last_words(run))
    left: tuple[str, ...] = ()
    if leaving is not None:
        left = leaving.finish()
    elif out is not None:
        left = run.save(out, show_secrets=show_secrets)
    reporting.print_left(out, left)
    if leaving is not None and RECORDING in left:
        output.echo(f"{out}/run.rec {replaying.note_of(run.plan.header())}")
    reporting.tell_traceback(run.traceback, out)
    return 0 if run.result.ok else 1


def _leaving(
    run: Execution, out: Path, limit: int | None, *, show_secrets: bool, ui: bool
) -> SessionFiles:
    """Return the writer of the session's log and recording; with a page they stay in memory too."""
    from controlplane.serving.session_files import MIB, SessionFiles

    return SessionFiles(
        run,
        out,
        limit=(limit or 0) * MIB,
        show_secrets=show_secrets,
        forget=not ui,
        tell=lambda line: output.complain(f"controlplane: {line}"),
    )


def _known(release: str | None) -> None:
    """Refuse releases whose served API is unknown. Raises UsageError."""
    from controlplane.apiserver.schema.releases import RELEASES

    if release is not None and release not in RELEASES:
        raise UsageError(f"release {release!r}: expected one of {', '.join(RELEASES)}")


def _token_key(run: Execution) -> bytes:
    from controlplane.serving.token_files import key_of_store

    return key_of_store(run.plan["store"])


def _keys(files: tuple[Path, ...]) -> Iterator[Key]:
    if files:
        from controlplane.apiserver.http.foreign_tokens import read_keys

        for path in files:
            yield from read_keys(path)


def _announce(kubeconfig: Path, context: str, address: Address, run: Execution) -> None:
    from controlplane.apiserver.http import kubeconfig as entries
    from controlplane.serving.neighbours import alone, is_live

    entries.write(kubeconfig, address, context, live=is_live, alone=alone)
    chosen = "" if context == entries.NAME else f" --context {context}"
    nodes, objects = len(run.cluster.config.nodes or ()), len(run.plan.given.submissions)
    loaded = plural(nodes, "node")
    if objects:
        loaded += f" and {plural(objects, 'object')} of the files"
    told = f"{address.url}, {loaded}, Ctrl-C ends it"
    if address.token and not address.url.startswith("https"):
        output.echo(
            f"curl -H 'Authorization: Bearer {address.token}' {address.url}/api/v1/nodes   # {told}"
        )
        output.echo(
            'kubectl sends no token over plain HTTP: for kubectl leave out --no-tls, or add --token ""'
        )
        return
    output.echo(f"kubectl --kubeconfig {kubeconfig}{chosen} get nodes   # {told}")


def _announce_page(address: Address) -> None:
    """The address of the page. The token follows a #, which browsers do not send."""
    from controlplane.serving.ui import ROOT

    token = f"#token={address.token}" if address.token else ""
    told = " (its certificate is this session's own: the browser will ask)"
    output.echo(
        f"page: {address.url}{ROOT}{token}{told if address.url.startswith('https') else ''}"
    )


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
