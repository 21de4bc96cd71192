"""Signatures of pods: what every plugin of the profile signs, and the whole."""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.pod import Pod
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Plugin, Status
from tests.golden.scheduler_world import framework_of, status_json

Json = Any


def answer(case_in: Json) -> Json:
    """Our value for `want`."""
    framework = framework_of(case_in, Handle())
    out: list[Json] = []
    for tree in case_in["pods"]:
        pod = Pod.from_tree(tree)
        signature = framework.sign_pod(pod)
        entry: Json = {"plugins": {p.name: _signed(p, pod) for p in framework.all_plugins}}
        entry["signature"] = False if signature is None else _without_nulls(json.loads(signature))
        if signature is not None:
            entry["text"] = signature
        out.append(entry)
    return {"pods": out}


def _signed(plugin: Plugin, pod: Pod) -> Json:
    if type(plugin).sign_pod is Plugin.sign_pod:
        return "none"
    signed = plugin.sign_pod(pod)
    if signed is None or isinstance(signed, Status):
        return status_json(signed)
    out = status_json(None)
    if signed:
        out["fragments"] = _without_nulls({name: json.loads(text) for name, text in signed})
    return out


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value
