"""What must hold of the CPUs and the memory that kubelets hand out, after every step of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.scenario import Invariant

if TYPE_CHECKING:
    from controlplane.scenarios.run import Run

PODS = "/registry/pods/"


def nothing_is_handed_out_twice(*nodes: str) -> Invariant:
    """Of these nodes: no CPU has two owners, none is lost, and no memory is promised twice."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.invariants import violations

        for node in nodes:
            host = run.cluster.machines[node]
            manager = host.containers
            if manager is None or host.writing or not run.world.alive(node):
                continue
            found = violations(manager)
            if found:
                return f"{node}: {found[0]}"
        return None

    return Invariant("no CPU and no memory has two owners", check, nodes)


def no_two_run_on_one_cpu(*nodes: str) -> Invariant:
    """Of these nodes: no two containers that run have CPUs of their own in common, whatever the managers say."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.cpuset import CPUSet

        for node in nodes:
            host = run.cluster.machines[node]
            manager = host.containers
            if manager is None:
                continue
            owners: dict[int, str] = {}
            for uid, sandbox in host.sandboxes.items():
                for container in sandbox.running():
                    if not container.cpus or not container.exclusive:
                        continue
                    for cpu in CPUSet.parse(container.cpus):
                        name = f"{uid}/{container.name}"
                        other = owners.setdefault(cpu, name)
                        if other != name:
                            return f"{node}: CPU {cpu} is {other}'s and {name}'s"
        return None

    return Invariant("no two containers run on one exclusive CPU", check, nodes)


def checkpoints_agree(*nodes: str) -> Invariant:
    """Once nothing moves, of these nodes: what the managers remember is what their files say."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.container_manager import FILES

        for node in nodes:
            manager = run.cluster.machines[node].containers
            if manager is None or not run.world.alive(node):
                continue
            disk = run.world.disk(node)
            texts = manager.cpu.state.text, manager.memory.state.text
            for file, remembered in zip(FILES, texts, strict=True):
                written = disk.read(file)
                if written is not None and written != remembered:
                    return f"{node}: {file} is not what is remembered"
        return None

    return Invariant("files say what managers remember", check)
