"""A policy file: DeschedulerPolicy of descheduler/v1alpha2, decoded, checked and filled in as upstream does it.

Follows `pkg/descheduler/policyconfig.go` and `pkg/api/v1alpha2/conversion.go`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from controlplane.api.go_structs import DecodeError
from controlplane.api.labels import Selector, SelectorError, parse
from controlplane.api.yaml_files import read_document
from controlplane.descheduler.default_evictor import priority_threshold
from controlplane.descheduler.evictions import Limits, PodEvictor
from controlplane.descheduler.metrics import collects_usage
from controlplane.descheduler.plugins.own import OwnPlugins
from controlplane.descheduler.plugins.own import load as load_plugins
from controlplane.descheduler.profiles import (
    BALANCE,
    DEFAULT_EVICTOR,
    DESCHEDULE,
    NO_PLUGINS,
    build,
)
from controlplane.descheduler.schema import ARGS, KIND, args_decoder, policy_decoder, stored
from controlplane.descheduler.validation import PolicyError, check_policy
from controlplane.descheduler.world import World
from controlplane.errors import UsageError, shown

__all__ = ["Policy", "decoded", "load", "policy_of", "with_defaults"]

API_VERSION: Final = "descheduler/v1alpha2"
_SCHEME: Final = 'scheme "pkg/runtime/scheme.go:111"'
_THRESHOLD: Final = "priorityThreshold"
_NO_HEAD: Final = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct "
    '{{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'
)
_ARG_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "RemoveFailedPods": {"minPodLifetimeSeconds": 3600},
    "RemovePodsViolatingTopologySpreadConstraint": {
        "constraints": ["DoNotSchedule"],
        "topologyBalanceNodeFit": True,
    },
}


@frozen
class Policy:
    """A policy that is valid.

    Args:
        profiles: the profiles, arguments with their defaults but the threshold of priorities.
        limits: the limits of a pass.
        nodes: the nodes that passes look at.
        grace_period_seconds: the grace period of each eviction, None for the pod's own.
        notifies_failures: failed evictions are events too.
        collects_usage: the use of nodes is collected from `metrics.k8s.io`.
    """

    profiles: tuple[dict[str, Any], ...]
    limits: Limits
    nodes: Selector
    grace_period_seconds: int | None = None
    notifies_failures: bool = False
    collects_usage: bool = False
    own: OwnPlugins = NO_PLUGINS


def load(path: Path, plugins: Sequence[str] = ()) -> Policy:
    """Read a policy file. Raises UsageError that names the file and the field.

    Args:
        path: the file.
        plugins: modules or files of users that define plugins.
    """
    own = load_plugins(plugins, (DEFAULT_EVICTOR, *DESCHEDULE, *BALANCE))
    tree = read_document(path)
    try:
        _check_read(tree)
        return policy_of(tree, path.name, own)
    except PolicyError as error:
        where = f"{path}: {error.place}: " if error.place else f"{path}: "
        raise UsageError(f"{where}{error}") from None


def policy_of(tree: Any, file: str = "policy.yaml", own: OwnPlugins = NO_PLUGINS) -> Policy:
    """Return a policy from its tree, which may name plugins of users (`own`). Raises PolicyError."""
    policy = decoded(tree, file, own)
    profiles = tuple(policy.get("profiles") or ())
    for each in profiles:
        _check_plugins(each, own)
    try:
        nodes = parse(policy.get("nodeSelector") or "")
    except SelectorError as error:
        raise PolicyError(f"nodeSelector: {error}") from None
    limits = [
        policy.get(f"maxNoOfPodsToEvict{each}") for each in ("PerNode", "PerNamespace", "Total")
    ]
    return Policy(
        profiles,
        Limits(*limits),
        nodes,
        policy.get("gracePeriodSeconds"),
        bool(policy.get("evictionFailureEventNotification")),
        collects_usage(policy),
        own,
    )


def decoded(
    tree: Mapping[str, Any], file: str = "policy.yaml", own: Container[str] = ()
) -> dict[str, Any]:
    """Return the policy that upstream holds of a file, before the thresholds of priorities. Raises PolicyError.

    A file without apiVersion is upstream's internal type, whose fields have no names in JSON: an empty policy.
    """
    try:
        policy = _decoded(tree)
    except DecodeError as error:
        told = f'failed decoding descheduler\'s policy config "{file}": {error}'
        raise PolicyError(told, error.place) from None
    check_policy(policy, own)
    return policy


def with_defaults(policy: Mapping[str, Any], classes: dict[str, int]) -> dict[str, Any]:
    """Return a decoded policy with what upstream fills in when it is loaded.

    `classes` are the values of priority classes. Raises ValueError: see `priority_threshold`.
    """
    out = dict(policy)
    if out.get("profiles"):
        out["profiles"] = [_filled(each, classes) for each in out["profiles"]]
    return out


def _decoded(tree: Mapping[str, Any]) -> dict[str, Any]:
    version, kind = tree.get("apiVersion") or "", tree.get("kind") or KIND
    if kind != KIND or version not in ("", API_VERSION):
        place = f'version "{version}"' if version else 'the internal version of group "descheduler"'
        raise DecodeError(f'no kind "{kind}" is registered for {place} in {_SCHEME}')
    if not version:
        return {}
    policy = policy_decoder().struct(KIND, tree)
    del policy["apiVersion"]
    policy.pop("kind", None)
    for number, profile in enumerate(policy.get("profiles") or ()):
        for at, config in enumerate(profile.get("pluginConfig") or ()):
            try:
                config["args"] = _decoded_args(config.get("name", ""), config.get("args"))
            except DecodeError as error:
                error.place = f"profiles[{number}].pluginConfig[{at}].args"
                raise
    return policy


def _decoded_args(plugin: str, args: Any) -> Any:
    name = f"{plugin}Args"
    if name not in ARGS:
        return args  # of a plugin of a user, or refused as not registered
    found: dict[str, Any] = {}
    if args is not None:
        if not isinstance(args, dict):
            what = {bool: "bool", str: "string", list: "array"}.get(type(args), "number")
            raise DecodeError(_NO_HEAD.format(what))
        decoder = args_decoder()
        found = decoder.struct(name, args)
        if decoder.unknown:
            raise DecodeError(f"strict decoding error: {', '.join(decoder.unknown)}")
    filled = stored(
        name, {key: value for key, value in found.items() if key not in ("kind", "apiVersion")}
    )
    for key, value in _ARG_DEFAULTS.get(plugin, {}).items():
        filled.setdefault(key, value)
    if plugin == DEFAULT_EVICTOR:
        filled.setdefault("podProtections", {})
    return filled


def _filled(profile: Mapping[str, Any], classes: dict[str, int]) -> dict[str, Any]:
    configs = list(profile.get("pluginConfig") or ())
    if all(each.get("name") != DEFAULT_EVICTOR for each in configs):
        configs.insert(0, {"name": DEFAULT_EVICTOR, "args": {"podProtections": {}}})
    points = dict(profile.get("plugins") or {})
    for point in ("filter", "preevictionfilter"):
        chosen = dict(points.get(point) or {})
        enabled = chosen.get("enabled") or []
        if DEFAULT_EVICTOR not in enabled:
            chosen["enabled"] = [DEFAULT_EVICTOR, *enabled]
        points[point] = chosen
    for number, each in enumerate(configs):
        if each["name"] == DEFAULT_EVICTOR:
            value = {"name": "", "value": priority_threshold(each["args"], classes)}
            configs[number] = {**each, "args": {**each["args"], _THRESHOLD: value}}
            break
    return {**profile, "pluginConfig": configs, "plugins": points}


def _check_plugins(profile: dict[str, Any], own: OwnPlugins) -> None:
    """Refuse a profile that cannot be built, whatever priority classes there are."""
    configs = [
        {**each, "args": {k: v for k, v in (each.get("args") or {}).items() if k != _THRESHOLD}}
        for each in profile.get("pluginConfig") or ()
    ]
    evictor = PodEvictor(Limits(), lambda _: None)
    try:
        build({**profile, "pluginConfig": configs}, World(), evictor, {}, own)
    except ValueError as error:
        raise PolicyError(str(error)) from None


def _check_read(tree: Any) -> None:
    """Refuse what upstream takes and leaves out without a word, and what is not emulated."""
    if not isinstance(tree, dict):
        raise PolicyError("the policy: expected a map")
    if tree.get("apiVersion") in (None, ""):
        raise PolicyError(f"apiVersion: {shown('')}: expected {API_VERSION}")
    decoder = policy_decoder()
    try:
        policy = decoder.struct(KIND, tree)
    except DecodeError:
        return  # told by its decoding
    if decoder.unknown:
        raise PolicyError(", ".join(decoder.unknown))
    for number, profile in enumerate(policy.get("profiles") or ()):
        for at, config in enumerate(profile.get("pluginConfig") or ()):
            args = config.get("args")
            if config.get("name") == DEFAULT_EVICTOR and isinstance(args, dict):
                try:
                    parse(str(args.get("nodeSelector") or ""))
                except SelectorError as error:
                    where = f"profiles[{number}].pluginConfig[{at}].args.nodeSelector"
                    raise PolicyError(f"{where}: {error}") from None
