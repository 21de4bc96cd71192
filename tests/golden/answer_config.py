"""KubeSchedulerConfiguration: decoding, defaulting, validation, expansion."""

from __future__ import annotations

from typing import Any

from controlplane.api.go_structs import DecodeError
from controlplane.scheduler.config.expand import ProfileError
from controlplane.scheduler.config.load import defaulted, to_config
from controlplane.scheduler.config.schema import API_VERSION, KIND
from controlplane.scheduler.config.validate import ValidationError, validate
from controlplane.scheduler.plugins.registry import in_tree_registry

Json = Any

_TOP = (
    "clientConnection",
    "enableContentionProfiling",
    "enableProfiling",
    "leaderElection",
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "extenders",
    "delayCacheUntilActive",
)
_REGISTRY = in_tree_registry()
_NOT_RECORDED = ("placementGenerate", "placementScore")
"""Points of pod groups, which the recording leaves out."""


def _without_kind(args: Json) -> Json:
    return {key: value for key, value in args.items() if key not in ("kind", "apiVersion")}


def _profile(profile: Json, config: Any) -> Json:
    plugins = {
        point: [list(each) if point == "score" else each[0] for each in chosen]
        for point, chosen in config.plugins.items()
        if chosen and point not in _NOT_RECORDED
    }
    out: Json = {"schedulerName": config.scheduler_name, "plugins": plugins}
    if config.percentage_of_nodes_to_score is not None:
        out["percentageOfNodesToScore"] = config.percentage_of_nodes_to_score
    args = profile["pluginConfig"]
    out["pluginArgs"] = {each["name"]: _without_kind(each["args"] or {}) for each in args}
    out["pluginArgsOrder"] = [each["name"] for each in args]
    return out


def _answer(document: Any) -> Json:
    try:
        filled = defaulted(document)
    except DecodeError as error:
        return {"decodeError": str(error)}
    errors = validate(filled)
    if errors:
        return {"validationErrors": errors, "validationError": str(ValidationError(errors))}
    try:
        config = to_config(filled, _REGISTRY)
    except ProfileError as error:
        return {"frameworkError": str(error)}
    top = {key: filled[key] for key in _TOP if key in filled}
    top |= {"apiVersion": API_VERSION, "kind": KIND}
    profiles = [_profile(p, c) for p, c in zip(filled["profiles"], config.profiles)]
    return {"top": top, "profiles": profiles}


_EMPTY = _answer({"apiVersion": API_VERSION, "kind": KIND})


def answer(case_in: Json) -> Json:
    """Our value for `want`; what equals the case `empty` is left out, as the data does."""
    document = case_in["yaml"] if "yaml" in case_in else case_in["config"]
    want = _answer(document)
    if "profiles" not in want or document == {"apiVersion": API_VERSION, "kind": KIND}:
        return want
    if want["top"] == _EMPTY["top"]:
        del want["top"]
    default = _EMPTY["profiles"][0]
    for profile in want["profiles"]:
        if all(profile[key] == default[key] for key in ("pluginArgs", "pluginArgsOrder")):
            del profile["pluginArgs"], profile["pluginArgsOrder"]
    return want
