"""`controlplane nodes`: nodes of a served cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import output
from controlplane.cli.names import Group
from controlplane.cli.served import in_served_cluster
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from controlplane.apiserver.http.kubeconfig import Address

PATH = "/api/v1/nodes"


@click.group("nodes", cls=Group, short_help="Add nodes to a served cluster.")
@in_served_cluster
def command() -> None:
    """Nodes of a cluster that `controlplane serve` is serving. kubectl deletes them."""


@command.command("add")
@click.argument("count", type=click.IntRange(1, 5_000))
@click.option("--cpu", default="8", show_default=True, help="CPUs of each.")
@click.option("--memory", default="32Gi", show_default=True, help="Memory of each.")
@click.option(
    "--pods", type=click.IntRange(1), default=110, show_default=True, help="Pods of each."
)
@click.option("--prefix", default="node", show_default=True, help="Names are PREFIX-NUMBER.")
@click.pass_obj
def add(where: tuple[Path, str], count: int, cpu: str, memory: str, pods: int, prefix: str) -> None:
    """Create COUNT nodes, with the next free numbers; each gets a kubelet."""
    from controlplane.apiserver.http import kubeconfig as files
    from controlplane.cluster import node_tree

    address = files.read(*where)
    taken = {each["metadata"]["name"] for each in _ask(address, None)["items"]}
    added: list[str] = []
    number = 0
    while len(added) < count:
        number += 1
        name = f"{prefix}-{number}"
        if name not in taken:
            _ask(address, node_tree(name, cpu=cpu, memory=memory, pods=pods))
            added.append(name)
    output.echo(f"added: {', '.join(added)}")


def _ask(address: Address, tree: dict[str, Any] | None) -> Any:
    """List nodes, or create one. Raises UsageError with the server's message."""
    import ssl
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    context = None
    if address.authority:
        context = ssl.create_default_context(cadata=address.authority.decode("ascii"))
    body = None if tree is None else json.dumps(tree).encode()
    request = Request(address.url + PATH, data=body)  # noqa: S310
    request.add_header("Content-Type", "application/json")
    if address.token:
        request.add_header("Authorization", f"Bearer {address.token}")
    try:
        with urlopen(request, context=context) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        try:
            text = str(json.loads(error.read())["message"])
        except (ValueError, KeyError, TypeError):
            text = str(error)
        raise UsageError(f"{address.url}: {text}") from error
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(f"{address.url}: no answer: {reason}") from error
