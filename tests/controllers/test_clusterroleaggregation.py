"""ClusterRoles that are put together of others, in a world."""

from __future__ import annotations

from typing import Any

from controlplane.client.resources import CLUSTER_ROLES
from tests.controllers.worlds import Small

READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
WRITE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}


def role(name: str, *rules: Any, labels: dict[str, str] | None = None, **more: Any) -> Any:
    return CLUSTER_ROLES, {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels or {}},
        "rules": list(rules),
        **more,
    }


WHOLE = role("whole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"part": "x"}}]})
PART = {"part": "x"}


def rules(small: Small, name: str) -> Any:
    (found,) = [obj.tree for obj in small.objects("clusterroles") if obj.name == name]
    return found.get("rules") or []


def test_a_role_has_the_rules_of_those_it_selects_as_they_come_and_go():
    async def remember(_client, _ctx):
        seen.append(rules(small, "whole"))

    async def delete(client, _ctx):
        await client.delete(CLUSTER_ROLES, "", "b")

    seen: list[Any] = []
    one, two = role("b", READ, labels=PART), role("a", WRITE, READ, labels=PART)
    other = role("c", {**READ, "verbs": ["delete"]})
    steps = (WHOLE, one, other, 5, remember, two, 5, remember, delete)
    small = Small(("clusterrole-aggregation",), *steps)
    small.run()
    assert seen == [[READ], [WRITE, READ]]
    assert rules(small, "whole") == [WRITE, READ]
