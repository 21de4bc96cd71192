"""Plugin sets: what the user says merged with the defaults, multiPoint spread over all points.

Upstream: `pkg/scheduler/apis/config/v1/default_plugins.go` (mergePluginSet),
`pkg/scheduler/framework/runtime/framework.go` (NewFramework, expandMultiPointPlugins).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from controlplane.scheduler.config.model import DEFAULT_MULTI_POINT

MULTI_POINT = "multiPoint"
ALL = "*"

# In upstream's order, which decides which error comes first.
POINT_TYPES: Mapping[str, str] = {
    "preFilter": "PreFilterPlugin",
    "filter": "FilterPlugin",
    "postFilter": "PostFilterPlugin",
    "reserve": "ReservePlugin",
    "preScore": "PreScorePlugin",
    "score": "ScorePlugin",
    "preBind": "PreBindPlugin",
    "bind": "BindPlugin",
    "postBind": "PostBindPlugin",
    "permit": "PermitPlugin",
    "preEnqueue": "PreEnqueuePlugin",
    "queueSort": "QueueSortPlugin",
    "placementGenerate": "PlacementGeneratePlugin",
    "placementScore": "PlacementScorePlugin",
}
ALL_POINTS = (*POINT_TYPES, MULTI_POINT)
WEIGHTED_POINTS = ("score", "placementScore")

Weighted = tuple[str, int]
"""Plugin and weight."""

_MAX_TOTAL_SCORE = (1 << 63) - 1


class ProfileError(ValueError):
    """A profile that cannot be built; the text is upstream's."""


@attrs.frozen
class PluginSetConfig:
    """One extension point: enabled plugins with weights, disabled names."""

    enabled: tuple[Weighted, ...] = ()
    disabled: tuple[str, ...] = ()


Plugins = Mapping[str, PluginSetConfig]

DEFAULT_PLUGINS: Plugins = {MULTI_POINT: PluginSetConfig(enabled=DEFAULT_MULTI_POINT)}


def merge(custom: Plugins, default: Plugins = DEFAULT_PLUGINS) -> dict[str, PluginSetConfig]:
    """The user's sets merged with the defaults, point by point."""
    empty = PluginSetConfig()
    return {
        point: _merge_set(default.get(point, empty), custom.get(point, empty))
        for point in ALL_POINTS
    }


def _merge_set(default: PluginSetConfig, custom: PluginSetConfig) -> PluginSetConfig:
    disabled = (*custom.disabled, *default.disabled)
    last = {name: index for index, (name, _) in enumerate(custom.enabled)}
    enabled: list[Weighted] = []
    replaced: set[int] = set()
    if ALL not in disabled:
        for name, weight in default.enabled:
            if name in disabled:
                continue
            index = last.get(name)
            if index is None:
                enabled.append((name, weight))
            else:
                enabled.append(custom.enabled[index])
                replaced.add(index)
    enabled += [each for index, each in enumerate(custom.enabled) if index not in replaced]
    return PluginSetConfig(tuple(enabled), disabled)


def needed(plugins: Plugins) -> list[str]:
    """Names of all plugins that are enabled anywhere, in order of first mention."""
    names: dict[str, None] = {}
    for point in ALL_POINTS:
        for name, _ in plugins.get(point, PluginSetConfig()).enabled:
            names[name] = None
    return list(names)


def expand(
    plugins: Plugins, implements: Callable[[str, str], bool | None], scheduler_name: str
) -> dict[str, tuple[Weighted, ...]]:
    """Plugins per point, in order; the weights are 0 except at `score`.

    `implements(plugin, point)` answers None for an unknown plugin. Raises ProfileError.
    """
    chosen: dict[str, list[str]] = {}
    for point, kind in POINT_TYPES.items():
        chosen[point] = _explicit(plugins[point], point, kind, implements)
    for point, kind in POINT_TYPES.items():
        chosen[point] = _with_multi_point(plugins, point, kind, chosen[point], implements)
    sorters = len(chosen["queueSort"])
    if sorters != 1:
        raise ProfileError(
            "only one queue sort plugin required for profile with scheduler name "
            f'"{scheduler_name}", but got {sorters}'
        )
    if not chosen["bind"]:
        raise ProfileError(
            f'at least one bind plugin is needed for profile with scheduler name "{scheduler_name}"'
        )
    weights = {point: _weights(plugins, implements, point) for point in WEIGHTED_POINTS}
    return {
        point: tuple((name, weights[point][name] if point in weights else 0) for name in names)
        for point, names in chosen.items()
    }


def _explicit(
    plugins: PluginSetConfig,
    point: str,
    kind: str,
    implements: Callable[[str, str], bool | None],
) -> list[str]:
    out: list[str] = []
    for name, _ in plugins.enabled:
        answer = implements(name, point)
        if answer is None:
            raise ProfileError(f'{kind} "{name}" does not exist')
        if not answer:
            raise ProfileError(f'plugin "{name}" does not extend {kind} plugin')
        if name in out:
            raise ProfileError(f'plugin "{name}" already registered as "{kind}"')
        out.append(name)
    return out


def _with_multi_point(
    plugins: Plugins,
    point: str,
    kind: str,
    explicit: list[str],
    implements: Callable[[str, str], bool | None],
) -> list[str]:
    disabled = plugins[point].disabled
    if ALL in disabled or not plugins[MULTI_POINT].enabled:
        return explicit
    spread: list[str] = []
    overridden: list[str] = []
    for name, _ in plugins[MULTI_POINT].enabled:
        answer = implements(name, point)
        if answer is None:
            raise ProfileError(f'{kind} "{name}" does not exist')
        if not answer or name in disabled:
            continue
        if name in explicit:
            overridden.append(name)
        elif name in spread:
            raise ProfileError(f'plugin "{name}" already registered as "{kind}"')
        else:
            spread.append(name)
    first = [name for name in explicit if name in overridden]
    return [*first, *spread, *(name for name in explicit if name not in overridden)]


def _weights(
    plugins: Plugins, implements: Callable[[str, str], bool | None], point: str
) -> dict[str, int]:
    weights: dict[str, int] = {}
    total = 0
    listed: Sequence[Weighted] = (*plugins[point].enabled, *plugins[MULTI_POINT].enabled)
    for name, weight in listed:
        if name in weights or not implements(name, point):
            continue
        weights[name] = weight or 1
        if weights[name] * 100 > _MAX_TOTAL_SCORE - total:
            raise ProfileError("total score of Score plugins could overflow")
        total += weights[name] * 100
    return weights
