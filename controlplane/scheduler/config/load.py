"""From a KubeSchedulerConfiguration document to the scheduler's configuration.

Upstream: `cmd/kube-scheduler/app/options/configfile.go`, `pkg/scheduler/apis/config/v1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.api.constraints import NodeAffinity, TopologySpreadConstraint
from controlplane.api.decoding import decode
from controlplane.api.go_structs import DecodeError, Decoder, parse_duration
from controlplane.scheduler.config import defaults as config_defaults
from controlplane.scheduler.config import expand as config_expand
from controlplane.scheduler.config.model import ProfileConfig, SchedulerConfig
from controlplane.scheduler.config.schema import API_VERSION, ARGS_KINDS, KIND, STRUCTS
from controlplane.scheduler.framework import args as a
from controlplane.scheduler.plugins.registry import Registry, implements, in_tree_registry

Json = Any

_GROUP = API_VERSION.partition("/")[0]
# Where upstream registers its types; part of its message.
_SCHEME = 'scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"'


def load(document: Mapping[str, Json] | str, registry: Registry | None = None) -> SchedulerConfig:
    """Decode, default and expand a document (an object, or text as YAML or JSON).

    Raises DecodeError, ValidationError or ProfileError, all of them ValueError, in this order.
    """
    from controlplane.scheduler.config.validate import ValidationError, validate

    filled = defaulted(document)
    errors = validate(filled)
    if errors:
        raise ValidationError(errors)
    return to_config(filled, registry or in_tree_registry())


def defaulted(document: Mapping[str, Json] | str) -> Json:
    """The decoded document with all defaults. Raises DecodeError."""
    if isinstance(document, str):
        from controlplane.scheduler.config.text import parse

        return config_defaults.fill(_decode(*parse(document)))
    return config_defaults.fill(_decode(document, ""))


def _decode(document: Mapping[str, Json], duplicate: str) -> Json:
    kind, version = document.get("kind", ""), document.get("apiVersion", "")
    if version != API_VERSION or (kind != KIND and kind not in ARGS_KINDS):
        raise DecodeError(f'no kind "{kind}" is registered for version "{version}" in {_SCHEME}')
    if kind != KIND:
        raise DecodeError(
            f"couldn't decode as KubeSchedulerConfiguration, got {version}, Kind={kind}: "
        )
    decoder = Decoder(STRUCTS)
    out = decoder.struct(KIND, document, "")
    strict = ([duplicate] if duplicate else []) + decoder.unknown
    for i, profile in enumerate(out.get("profiles", ())):
        for j, config in enumerate(profile.get("pluginConfig", ())):
            at = f".profiles[{i}].pluginConfig[{j}]"
            config["args"] = _decode_args(config.get("name", ""), config.get("args"), at, strict)
    if strict:
        raise DecodeError(f"strict decoding error: {', '.join(strict)}")
    return out


def _decode_args(plugin: str, args: Json, at: str, strict: list[str]) -> Json:
    wanted = f"{plugin}Args"
    if args is None:
        return None
    kind = args.get("kind", "") if isinstance(args, dict) else ""
    version = args.get("apiVersion", "") if isinstance(args, dict) else ""
    if wanted not in ARGS_KINDS:
        if kind and version == API_VERSION and kind in ARGS_KINDS:
            raise DecodeError(_wrong_kind(plugin, wanted, kind, at))
        return args
    if kind or version:
        kind, version = kind or wanted, version or API_VERSION
        if version != API_VERSION or kind not in ARGS_KINDS:
            raise DecodeError(
                f"decoding {at}: decoding args for plugin {plugin}: "
                f'no kind "{kind}" is registered for version "{version}" in {_SCHEME}'
            )
        if kind != wanted:
            raise DecodeError(_wrong_kind(plugin, wanted, kind, at))
    decoder = Decoder(STRUCTS)
    try:
        out = decoder.struct(wanted, args, "")
    except DecodeError as wrong:
        raise DecodeError(f"decoding {at}: decoding args for plugin {plugin}: {wrong}") from wrong
    if decoder.unknown:
        text = ", ".join(decoder.unknown)
        strict.append(
            f"decoding {at}: strict decoding error: decoding args for plugin {plugin}: "
            f"strict decoding error: {text}"
        )
    return out


def _wrong_kind(plugin: str, wanted: str, kind: str, at: str) -> str:
    return (
        f"decoding {at}: args for plugin {plugin} were not of type {wanted}.{_GROUP}, "
        f"got {kind}.{_GROUP}"
    )


def to_config(filled: Json, registry: Registry) -> SchedulerConfig:
    """The configuration of a defaulted and valid document. Raises ProfileError."""
    profiles: list[ProfileConfig] = []
    for profile in filled["profiles"]:
        name = profile["schedulerName"]
        try:
            profiles.append(_profile(profile, name, registry, filled.get("extenders", ())))
        except config_expand.ProfileError as broken:
            raise config_expand.ProfileError(
                f"creating profile for scheduler name {name}: {broken}"
            ) from broken
    return SchedulerConfig(
        parallelism=filled["parallelism"],
        percentage_of_nodes_to_score=filled["percentageOfNodesToScore"],
        pod_initial_backoff_seconds=filled["podInitialBackoffSeconds"],
        pod_max_backoff_seconds=filled["podMaxBackoffSeconds"],
        profiles=tuple(profiles),
    )


def _profile(profile: Json, name: str, registry: Registry, extenders: Json) -> ProfileConfig:
    from controlplane.scheduler.config.validate import late_args_error

    plugins = profile["plugins"]
    wanted = config_expand.needed(plugins)
    args: dict[str, Any] = {}
    for each in profile["pluginConfig"]:
        plugin = each["name"]
        if plugin in wanted and plugin in registry:
            error = late_args_error(plugin, each["args"])
            if error:
                raise config_expand.ProfileError(f'initializing plugin "{plugin}": {error}')
        if f"{plugin}Args" in ARGS_KINDS:
            args[plugin] = to_args(plugin, each["args"])
        else:
            args[plugin] = each["args"]
    ignored = tuple(
        managed["name"]
        for extender in extenders
        for managed in extender.get("managedResources", ())
        if managed.get("ignoredByScheduler")
    )
    if ignored and "NodeResourcesFit" in args:
        import attrs

        args["NodeResourcesFit"] = attrs.evolve(args["NodeResourcesFit"], ignored_resources=ignored)
    points = config_expand.expand(plugins, implements(registry), name)
    disabled = {point: each.disabled for point, each in plugins.items() if each.disabled}
    return ProfileConfig(name, profile.get("percentageOfNodesToScore"), points, args, disabled)


def to_args(plugin: str, tree: Json) -> Any:
    """A plugin's arguments as the class it takes."""
    if plugin == "NodeResourcesFit":
        strategy = tree["scoringStrategy"]
        ratio = strategy.get("requestedToCapacityRatio") or {}
        return a.NodeResourcesFitArgs(
            tuple(tree.get("ignoredResources", ())),
            tuple(tree.get("ignoredResourceGroups", ())),
            strategy.get("type", ""),
            _resources(strategy["resources"]),
            _shape(ratio.get("shape", ())),
        )
    if plugin == "NodeResourcesBalancedAllocation":
        return a.NodeResourcesBalancedAllocationArgs(_resources(tree["resources"]))
    if plugin == "NodeAffinity":
        added = tree.get("addedAffinity")
        return a.NodeAffinityArgs(None if added is None else decode(NodeAffinity, added))
    if plugin == "InterPodAffinity":
        return a.InterPodAffinityArgs(
            tree["hardPodAffinityWeight"], tree["ignorePreferredTermsOfExistingPods"]
        )
    if plugin == "PodTopologySpread":
        constraints = tree.get("defaultConstraints", ())
        return a.PodTopologySpreadArgs(
            tree["defaultingType"],
            tuple(decode(TopologySpreadConstraint, each) for each in constraints),
        )
    if plugin == "VolumeBinding":
        return a.VolumeBindingArgs(tree["bindTimeoutSeconds"])
    if plugin == "DefaultPreemption":
        return a.DefaultPreemptionArgs(
            tree["minCandidateNodesPercentage"], tree["minCandidateNodesAbsolute"]
        )
    return a.DynamicResourcesArgs(
        parse_duration(tree["filterTimeout"]), parse_duration(tree["bindingTimeout"])
    )


def _resources(trees: Json) -> tuple[a.ResourceSpec, ...]:
    return tuple(a.ResourceSpec(each["name"], each["weight"]) for each in trees)


def _shape(trees: Json) -> tuple[a.ShapePoint, ...]:
    return tuple(a.ShapePoint(each.get("utilization", 0), each.get("score", 0)) for each in trees)
