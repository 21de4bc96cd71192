"""`controlplane import`: the objects of a cluster, or of exported files, as a folder of manifests."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from attrs import frozen

from controlplane.api.redaction import redacted
from controlplane.api.yaml_text import dumper
from controlplane.cli import output
from controlplane.errors import UsageError, plural
from controlplane.scenarios.inputs import manifests
from controlplane.scenarios.inputs.exported import RECORDS, identity_of, manifests_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Tree = dict[str, Any]
CLUSTER_SCOPED: Final = "cluster"
"""Folder of the objects without a namespace; no namespace's folder, for those begin with `ns-`."""
NOT_READ: Final = frozenset(
    f"{kind.lower()}s{'.' + version.partition('/')[0] if '/' in version else ''}"
    for kind, versions in RECORDS.items()
    for version in versions
) | {"componentstatuses", "bindings"}
"""Resources that hold nothing to bring along."""


@click.command("import", short_help="Bring a cluster's objects into a folder of manifests.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--context", metavar="NAME", help="Context of the kubeconfig [default: the current one]."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="The kubeconfig of the cluster [default: as for kubectl].",
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Only objects of this namespace, with nodes and other objects without a namespace; repeatable.",
)
@click.option(
    "-l", "--selector", default="", metavar="SELECTOR", help="Only objects with these labels."
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME",
    help="Only this resource, as kubectl names it (deployments.apps); repeatable.",
)
@click.option("--show-secrets", is_flag=True, help="Keep the data of Secrets, not redacted.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="KUBECONFIG",
    help="Bring what a scheduler looks at into the served cluster of this kubeconfig, in place of a folder.",
)
@click.option("--into-name", default="", metavar="NAME", help="Which of its clusters.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a record of kube-scheduler-simulator (.jsonl), in place of a folder.",
)
@click.option(
    "--watch",
    is_flag=True,
    help="With --into or --record: follow the cluster's changes until Ctrl-C.",
)
@click.option(
    "--duration",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --watch: follow it for so long.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="cluster",
    show_default=True,
    metavar="DIR",
    help="The folder to write, which must be empty or missing.",
)
def command(
    files: tuple[str, ...],
    context: str | None,
    kubeconfig: Path | None,
    namespaces: tuple[str, ...],
    selector: str,
    resources: tuple[str, ...],
    show_secrets: bool,
    out: Path,
    into: Path | None,
    into_name: str,
    record: Path | None,
    watch: bool,
    duration: float | None,
) -> int:
    """Read the objects of a cluster with kubectl, or those of exported FILEs, and write manifests for `run`,
    `serve`, `explore` and `kubectl apply`.

    Only reads from the cluster. What a control plane makes itself (pods of a Deployment, endpoints,
    Events) is left out, and so is what a server sets. The data of Secrets are redacted.
    """
    if files and (context or kubeconfig or selector or resources or namespaces):
        raise UsageError("import: expected files, or a cluster and what to read from it")
    asked = ["kubectl"]
    asked += ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    asked += ["--context", context] if context else []
    if into is not None or record is not None:
        if files or namespaces or resources or (into and record):
            raise UsageError("import: --into and --record: expected one of them, and a cluster")
        followed = _Followed(into, into_name, record, watch, duration)
        return _follow(asked, selector, followed)
    if watch or duration is not None:
        raise UsageError("import: --watch: expected --into or --record with it")
    _check_empty(out)
    if files:
        trees: Sequence[Tree] = [each.tree for name in files for each in manifests.load([name])]
    else:
        trees = _read(asked, namespaces, selector, resources)
    if not show_secrets:
        trees = [redacted(each) for each in trees]
    found, left_out = manifests_of(_once(trees))
    if not found:
        raise UsageError("import: no objects found")
    written = _write(out, found)
    output.echo(f"{out}: {plural(len(found), 'object')} in {plural(written, 'file')}")
    if left_out:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(left_out.items()))
        output.echo(f"left out, for the control plane makes them itself: {kinds}")
    if not show_secrets and any(each["kind"] == "Secret" for each in found):
        output.echo("the data of Secrets are redacted (--show-secrets keeps them)")
    output.echo(f"controlplane run {out}")
    return 0


@frozen
class _Followed:
    """The target of what a cluster has, and for how long its changes are followed."""

    into: Path | None
    into_name: str
    record: Path | None
    watch: bool
    duration: float | None


def _follow(kubectl: list[str], selector: str, asked: _Followed) -> int:
    """Bring a cluster's objects, and its changes, into a served cluster or a record."""
    import trio

    from controlplane.apiserver.http import kubeconfig
    from controlplane.serving.cluster_sync import Record, Served, Source, Target, sync

    _check_kubectl(kubectl)
    target: Target
    with contextlib.ExitStack() as stack:
        if asked.into is not None:
            target = Served(kubeconfig.read(asked.into, asked.into_name))
        else:
            assert asked.record is not None
            try:
                target = Record(stack.enter_context(asked.record.open("w", encoding="utf-8")))
            except OSError as error:
                raise UsageError(f"{asked.record}: {error.strerror}") from error
        run = partial(
            sync,
            Source(kubectl, selector),
            target,
            lambda line: output.complain(f"controlplane: {line}"),
            follow=asked.watch,
            seconds=asked.duration,
        )
        counts = trio.run(run)
    words = {"Add": "added", "Update": "updated", "Delete": "deleted", "refused": "refused"}
    told = ", ".join(f"{counts[key]:,} {word}" for key, word in words.items() if counts[key])
    output.echo(f"{asked.into or asked.record}: {told or 'no objects'}")
    return 0


def _check_kubectl(kubectl: list[str]) -> None:
    if shutil.which(kubectl[0]) is None:
        raise UsageError("import: kubectl was not found, which reads the cluster")


def _check_empty(out: Path) -> None:
    try:
        if out.exists() and any(out.iterdir()):
            raise UsageError(f"{out}: not empty: expected a new or an empty folder")
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from error


def _read(
    kubectl: list[str], namespaces: Sequence[str], selector: str, resources: Sequence[str]
) -> list[Tree]:
    """The objects of a cluster, resource by resource. Raises UsageError with kubectl's own words."""
    _check_kubectl(kubectl)
    found: list[Tree] = []
    progress = output.Progress()
    for namespaced in (False, True):
        names = set(_ask([*kubectl, "api-resources", "--verbs=list", "-o", "name",
                          f"--namespaced={str(namespaced).lower()}"]).split())  # fmt: skip
        names -= NOT_READ
        if resources:
            names = {
                each for each in names if each in resources or each.partition(".")[0] in resources
            }
        places = [["-n", each] for each in namespaces] if namespaced and namespaces else [["-A"]]
        for name in sorted(names):
            progress.show(f"reading {name}, {len(found):,} objects so far")
            for place in places if namespaced else [[]]:
                asked = [*kubectl, "get", name, *place, "-o", "json", "--ignore-not-found"]
                text = _ask([*asked, "-l", selector] if selector else asked)
                found += json.loads(text)["items"] if text.strip() else []
    progress.clear()
    return [each for each in found if not _is_elsewhere(each, namespaces)]


def _is_elsewhere(tree: Tree, namespaces: Sequence[str]) -> bool:
    """Return whether an object is the Namespace of objects that are not asked for."""
    return bool(
        namespaces and tree["kind"] == "Namespace" and tree["metadata"]["name"] not in namespaces
    )


def _ask(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise UsageError(f"{' '.join(words[:1])}: {lines[-1]}")
    return done.stdout


def _once(trees: Iterable[Tree]) -> list[Tree]:
    """Each object once: some are served in several groups or versions."""
    found: dict[Any, Tree] = {}
    for tree in trees:
        key = tree["metadata"].get("uid") or identity_of(tree)
        found.setdefault(key, tree)
    return list(found.values())


def _write(out: Path, trees: Iterable[Tree]) -> int:
    """Write a file per namespace and kind; return their number."""
    import yaml

    files: dict[Path, list[Tree]] = {}
    for tree in trees:
        namespace = tree["metadata"].get("namespace")
        group = tree["apiVersion"].rpartition("/")[0]
        name = f"{tree['kind'].lower()}{'.' + group if group else ''}.yaml"
        files.setdefault(
            out / (f"ns-{namespace}" if namespace else CLUSTER_SCOPED) / name, []
        ).append(tree)
    try:
        for path, group_of_trees in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            text = yaml.dump_all(
                group_of_trees,
                Dumper=dumper(),
                sort_keys=True,
                allow_unicode=True,
                explicit_start=True,
            )
            path.touch(mode=0o600)  # Secrets may be among them
            path.write_text(text)
    except OSError as error:
        raise UsageError(f"{error.filename or out}: {error.strerror}") from error
    return len(files)
