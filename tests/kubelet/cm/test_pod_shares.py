"""Shares of a pod's containers in its own resources, over plain numbers."""

from __future__ import annotations

from controlplane.api.pod import Pod
from controlplane.kubelet.cm.pod_shares import shares_of


def shares(init: dict[str, int], containers: dict[str, int], sidecars: tuple[str, ...] = ()):
    own = {**init, **containers}
    pod = Pod.from_tree(
        {
            "metadata": {"name": "p", "uid": "p"},
            "spec": {
                "initContainers": [
                    {"name": name, "restartPolicy": "Always"}
                    if name in sidecars
                    else {"name": name}
                    for name in init
                ],
                "containers": [{"name": name} for name in containers],
            },
        }
    )
    return shares_of(
        pod, 10, lambda each, _: own[each.name] or None, lambda pool, part: pool - part
    )


def test_containers_without_a_part_of_their_own_share_the_rest() -> None:
    assert shares({}, {"a": 3, "b": 0, "c": 0}) == {"a": 3, "b": 7, "c": 7}


def test_an_init_container_may_use_all_that_the_sidecars_before_it_leave() -> None:
    found = shares({"first": 0, "side": 4, "second": 0}, {"a": 1}, ("side",))
    assert found == {"first": 10, "side": 4, "second": 6, "a": 1}


def test_an_init_container_takes_nothing_from_the_containers_after_it() -> None:
    assert shares({"i": 9}, {"a": 3, "b": 0}) == {"i": 9, "a": 3, "b": 7}


def test_a_sidecar_without_a_part_of_its_own_shares_what_the_containers_leave() -> None:
    assert shares({"side": 0}, {"a": 3, "b": 0}, ("side",)) == {"a": 3, "side": 7, "b": 7}
