"""Rules that the kinds of apps share."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.apps.daemon_sets import validate_daemon_set
from controlplane.apiserver.kinds.apps.deployments import validate_deployment


def _owner(strategy: str, **rolling: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                        "terminationMessagePolicy": "File"}]}}  # fmt: skip
    return {"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template,
        strategy: {"type": "RollingUpdate", "rollingUpdate": rolling}}}  # fmt: skip


def test_a_number_in_quotes_is_none_but_counts_as_one() -> None:
    body = _owner("updateStrategy", maxUnavailable="2", maxSurge=1)
    assert [error.field for error in validate_daemon_set(body)] == [
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "spec.updateStrategy.rollingUpdate.maxSurge",
    ]
    body = _owner("strategy", maxUnavailable="x", maxSurge=0)
    assert [error.detail[:16] for error in validate_deployment(body)] == [
        "a valid percent ", "may not be 0 whe",
    ]  # fmt: skip
