"""Nodes as the options --kubelet-config and --machine say: their hardware, and how their kubelets are set up."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controlplane.kubelet.config.configuration import KubeletConfiguration
    from controlplane.kubelet.machine import Machine
    from controlplane.kubelet.node.settings import KubeletSettings
    from controlplane.scenarios.engine.run import Run

Tree = dict[str, Any]
MOST_CORES = 8192
"""CPUs of a machine whose topology is emulated: the tables of 100,000 take 0.13 s a node, and those of
1,000,000,000 more memory than there is."""


def equipped(
    nodes: Sequence[Tree], config_file: str | None, machine_text: str | None, release: str
) -> tuple[tuple[Tree, ...], Mapping[str, KubeletSettings]]:
    """The nodes with what their kubelets will report, and the settings by node. Raises UsageError."""
    return equipment(config_file, machine_text, release)(nodes)


def equipment(
    config_file: str | None, machine_text: str | None, release: str
) -> Callable[[Sequence[Tree]], tuple[tuple[Tree, ...], Mapping[str, KubeletSettings]]]:
    """A function that equips nodes, those too that join later; the files are read now. Raises UsageError."""
    from controlplane.kubelet.config.configuration import configuration
    from controlplane.scenarios.inputs.static_pods import folder

    if config_file is None:
        config = configuration(release=release)
    else:
        config = configuration(_document(config_file), origin=config_file, release=release)
    machine = None if machine_text is None else _machine(machine_text)
    manifests = None
    if config.static_pod_path and config_file is not None:
        # As upstream: a path that is not absolute is one beside the file that names it.
        manifests = folder(Path(config_file).parent / config.static_pod_path)
    return partial(furnished, config=config, machine=machine, manifests=manifests)


def furnished(
    nodes: Sequence[Tree],
    config: KubeletConfiguration,
    machine: Machine | None,
    manifests: Mapping[str, Tree] | None = None,
) -> tuple[tuple[Tree, ...], Mapping[str, KubeletSettings]]:
    """The same of nodes that are set up and built alike; without a machine each is one of the node's size.

    `manifests` are the files of static pods of each, None where there is no folder of them.
    """
    made: list[Tree] = []
    settings: dict[str, KubeletSettings] = {}
    for tree in nodes:
        own = machine if machine is not None else _regular(tree)
        made.append(_reporting(tree, own, config))
        settings[tree["metadata"]["name"]] = _settings(own, config, manifests)
    return tuple(made), settings


def check(config_file: str | None, machine_text: str | None, release: str) -> None:
    """Return whether the options make sense, before anything runs. Raises UsageError, for a policy that the machine
    does not take as well.
    """
    from controlplane.cluster import node_tree
    from controlplane.kubelet.cm.container_manager import ContainerManager
    from controlplane.kubelet.cm.errors import ManagerError

    _, found = equipped((node_tree("node"),), config_file, machine_text, release)
    settings = found["node"]
    if settings.hands_out and settings.machine is not None and machine_text is not None:
        try:
            ContainerManager(settings.machine, settings.policies, features=settings.features)
        except ManagerError as error:
            raise UsageError(f"{config_file or '--machine'}: {error}") from error


def _document(file: str) -> Tree:
    import yaml

    from controlplane.api import yaml_text

    try:
        found = yaml_text.load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        told = " ".join(str(error).split())
        raise UsageError(f"{file}: not YAML: {told}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{file}: expected a KubeletConfiguration, found {type(found).__name__}")
    return found


def _machine(text: str) -> Machine:
    from controlplane.kubelet.machine import machine_of_text

    return machine_of_text(text)


def _regular(tree: Tree) -> Machine:
    """One socket with as many cores as the node has CPUs, and its memory in one NUMA node."""
    from controlplane.api.quantity import parse
    from controlplane.kubelet.machine import machine_of_text

    status = tree.get("status") or {}
    amounts = status.get("capacity") or status.get("allocatable") or {}
    cores = max(1, parse(str(amounts.get("cpu", "1"))).value())
    if cores > MOST_CORES:
        name = tree["metadata"]["name"]
        raise UsageError(f"node {name}: {cores} CPUs; an emulated machine has {MOST_CORES} at most")
    memory = parse(str(amounts.get("memory", "4Gi"))).value()
    return machine_of_text(f"cores={cores} memory={memory}")


def _reporting(tree: Tree, machine: Machine, config: KubeletConfiguration) -> Tree:
    from controlplane.api.quantity import parse
    from controlplane.kubelet.config.allocatable import allocatable_of, capacity_of

    status = tree.get("status") or {}
    given = {name: str(text) for name, text in (status.get("capacity") or {}).items()}
    storage = given.get("ephemeral-storage")
    capacity = capacity_of(machine, config, None if storage is None else parse(storage))
    others = {name: parse(text) for name, text in given.items() if name not in capacity}
    capacity = {**others, **capacity}
    allocatable = allocatable_of(config, capacity)
    return {
        **tree,
        "status": {
            **status,
            "capacity": {name: each.canonical() for name, each in capacity.items()},
            "allocatable": {name: each.canonical() for name, each in allocatable.items()},
        },
    }


def _settings(
    machine: Machine, config: KubeletConfiguration, manifests: Mapping[str, Tree] | None
) -> KubeletSettings:
    from controlplane.kubelet.config.allocatable import capacity_of, policies_of
    from controlplane.kubelet.eviction.settings import settings_of
    from controlplane.kubelet.node.settings import KubeletSettings

    policies = policies_of(config, capacity_of(machine, config))
    eviction = settings_of(config)
    return KubeletSettings(machine, policies, config.features, eviction, manifests)


def pictures(run: Run) -> list[str]:
    """The CPUs and the memory per NUMA node that containers hold, for every node with a static policy."""
    from controlplane.kubelet.cm.cpuset import EMPTY
    from controlplane.kubelet.cm.picture import picture

    names = {obj.uid: obj.name for obj in run.objects("/registry/pods/")}
    found = []
    for name, host in run.cluster.machines.items():
        manager = host.containers
        if manager is not None and (manager.devices is None or manager.hands_out):
            reserved = getattr(manager.cpu.policy, "reserved", EMPTY)
            text = picture(
                manager.machine,
                manager.cpu.state,
                manager.memory.state,
                reserved,
                lambda uid: names.get(uid, uid),
            )
            found.append(f"{name}\n{text}\n")
    return found
