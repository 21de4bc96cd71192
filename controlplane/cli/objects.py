"""`controlplane objects`: export, restore and reset of a served cluster's objects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import output
from controlplane.cli.names import Group
from controlplane.cli.served import in_served_cluster
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from controlplane.apiserver.http.kubeconfig import Address


@click.group("objects", cls=Group, short_help="Export, restore or reset a served cluster.")
@in_served_cluster
def command() -> None:
    """Objects of a cluster that `controlplane serve` is serving. Secrets are among them, readable."""


@command.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.pass_obj
def export(where: tuple[Path, str], file: Path | None) -> None:
    """Write all objects as YAML to FILE, or print them: for kubectl apply, run, serve, and restore."""
    from actors import private_files
    from controlplane.serving.asking import ask_text

    text = ask_text(_address(where), "GET", _path())
    if file is None:
        output.echo(text.rstrip("\n"))
        return
    try:
        private_files.touch(file)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
    output.echo(f"written: {file}")


@command.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.pass_obj
def restore(where: tuple[Path, str], file: Path) -> None:
    """Create the objects of FILE, and replace those that differ. Other objects stay."""
    from controlplane.serving.asking import ask_text

    try:
        text = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    _show(ask_text(_address(where), "POST", _path(), text))


@command.command("reset")
@click.pass_obj
def reset(where: tuple[Path, str]) -> None:
    """Bring back the objects that the session began with, and delete all others."""
    from controlplane.serving.asking import ask_text

    _show(ask_text(_address(where), "DELETE", _path()))


def _path() -> str:
    from controlplane.serving.objects import PATH

    return PATH


def _address(where: tuple[Path, str]) -> Address:
    from controlplane.apiserver.http import kubeconfig

    return kubeconfig.read(*where)


def _show(text: str) -> None:
    """Print what was done; exit status 1 where objects were refused."""
    import json

    found: dict[str, Any] = json.loads(text)
    errors = found.pop("errors")
    counts = ", ".join(f"{count} {name}" for name, count in found.items() if count)
    output.echo(counts or "nothing to be done")
    for each in errors:
        output.echo(each)
    if errors:
        raise SystemExit(1)
