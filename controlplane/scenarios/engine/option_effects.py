"""Effects of the common options: how each is parsed, and what it changes in the configuration of a cluster.

Functions named `apply_...` are an option's `apply`, those named `parse_...` its `parse`; see `Option`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from controlplane.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.controller import Controller
    from controlplane.scenarios.engine.setting import Setting

    Changes = dict[str, Any]

PARTS: Final[dict[str, dict[str, Any]]] = {
    "scheduler": {"schedulers": 0},
    "controllers": {"controllers": False},
    "kubelets": {"kubelets": False},
}


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def controllers(text: str) -> tuple[str, ...]:
    """The controllers that --controllers names. Raises UsageError for an unknown name."""
    from controlplane.controllers.common.selection import names_of
    from controlplane.controllers.loops.manager import check_names

    asked = names_of(text)
    check_names(asked, "--controllers")
    return asked


def admission(text: str) -> tuple[str, ...]:
    """The plugins that --admission leaves out. Raises UsageError for a name that no plugin has."""
    from controlplane.apiserver.requests.admission.chain import DEFAULT_PLUGINS
    from controlplane.controllers.common.selection import UnknownController, selected

    try:
        running = selected(_listed(text), DEFAULT_PLUGINS, "admission plugin")
    except UnknownController as error:
        raise UsageError(f"--admission: {error}") from None
    return tuple(name for name in DEFAULT_PLUGINS if name not in running)


def without(text: str) -> dict[str, Any]:
    """The fields of a cluster that lacks these parts. Raises UsageError for what is no part."""
    changes: dict[str, Any] = {}
    for part in _listed(text):
        if part not in PARTS:
            raise UsageError(f"--without: {unknown_name('part', part, PARTS)}")
        changes.update(PARTS[part])
    return changes


def apply_informers(_config: ClusterConfig, setting: Setting) -> Changes:
    """Informers of one task each, or of several."""
    return {"joined_informers": setting["informers"] == "joined"}


def parse_feature_gates(setting: Setting) -> dict[str, bool]:
    """The feature gates that --feature-gates names. Raises UsageError."""
    from controlplane.apiserver.schema.feature_gates import later
    from controlplane.scheduler.config.features import parse

    found = parse(setting["feature_gates"])
    for name, since in later(found, setting.release).items():
        raise UsageError(
            f"--feature-gates {name}=true: emulated from release {since} on, not in {setting.release}"
        )
    return found


def apply_feature_gates(config: ClusterConfig, setting: Setting) -> Changes:
    """They come before those of the scenario."""
    return {"scheduler_features": {**config.scheduler_features, **setting.parsed["feature_gates"]}}


def apply_scheduler_plugin(_config: ClusterConfig, setting: Setting) -> Changes:
    """The scheduler's registry with the plugins of these modules."""
    from controlplane.scheduler.config import user_plugins

    return {"scheduler_plugins": user_plugins.registry_with(setting["scheduler_plugin"])}


def apply_scheduler_config(_config: ClusterConfig, setting: Setting) -> Changes:
    """The scheduler's configuration, which may name plugins of --scheduler-plugin."""
    from controlplane.scheduler.config import user_plugins

    if not setting["scheduler_config"]:
        return {}
    registry = user_plugins.registry_with(setting["scheduler_plugin"])
    config = user_plugins.load_config(Path(setting["scheduler_config"]), registry)
    return {"scheduler": config, "scheduler_plugins": registry}


def apply_explain_scheduling(_config: ClusterConfig, setting: Setting) -> Changes:
    """Explanations, which a scenario may have on anyway."""
    return {"explain_scheduling": True} if setting["explain_scheduling"] else {}


def parse_controllers(setting: Setting) -> tuple[str, ...]:
    """The controllers that run. Raises UsageError."""
    return controllers(setting["controllers"])


def apply_controllers(_config: ClusterConfig, setting: Setting) -> Changes:
    """The controllers that run."""
    return {"enabled_controllers": setting.parsed["controllers"]}


def parse_own_controllers(setting: Setting) -> tuple[type[Controller], ...]:
    """The controllers that the modules of --own-controller define. Raises UsageError."""
    from controlplane.controllers.common.controller import Controller
    from controlplane.user_code import named_classes

    found: dict[str, type[Controller]] = {}
    for module in setting["own_controller"]:
        for each in named_classes(module, "controller", Controller):
            if each.name in found:
                raise UsageError(f"{module}: a controller called {each.name} exists already")
            found[each.name] = each
    return tuple(found.values())


def apply_own_controllers(config: ClusterConfig, setting: Setting) -> Changes:
    """They run beside those of the scenario."""
    more = setting.parsed["own_controller"]
    return {"own_controllers": (*config.own_controllers, *more)}


def parse_admission(setting: Setting) -> tuple[str, ...]:
    """The admission plugins that do not run. Raises UsageError."""
    return admission(setting["admission"])


def apply_admission(config: ClusterConfig, setting: Setting) -> Changes:
    """The admission plugins that do not run, besides those that the scenario turns off."""
    return {"disabled_admission": (*config.disabled_admission, *setting.parsed["admission"])}


def parse_without(setting: Setting) -> Changes:
    """The fields of a cluster that lacks parts. Raises UsageError."""
    return without(setting["without"])


def apply_without(_config: ClusterConfig, setting: Setting) -> Changes:
    """A cluster that lacks parts."""
    changes: Changes = setting.parsed["without"]
    return changes


def apply_cache_lag(config: ClusterConfig, setting: Setting) -> Changes:
    """Caches that lag. Raises UsageError with one API server."""
    if not setting["cache_lag"]:
        return {}
    from controlplane.apiserver.loops.replica import ReplicaOptions

    if (setting["apiservers"] or config.apiservers) < 2:
        raise UsageError(
            "--cache-lag needs --apiservers 2 or more: one server's caches lag by the schedule alone"
        )
    replica = config.replica or ReplicaOptions()
    return {"replica": evolve(replica, lag_ns=round(setting["cache_lag"] * 1e9))}


def parse_equipment(setting: Setting) -> Any:
    """A function that equips nodes, from --kubelet-config and --machine. Raises UsageError."""
    from controlplane.scenarios.engine import kubelets

    file, machine = setting["kubelet_config"] or None, setting["machine"] or None
    if file is None and machine is None:
        return None
    kubelets.check(file, machine, setting.release)
    return kubelets.equipment(file, machine, setting.release)


def apply_equipment(config: ClusterConfig, setting: Setting) -> Changes:
    """Nodes with their hardware and the settings of their kubelets; both options say the same."""
    equip = setting.parsed["kubelet_config" if setting["kubelet_config"] else "machine"]
    if equip is None:
        return {}
    nodes, settings = equip(config.nodes or ())
    return {"nodes": nodes, "kubelet_settings": settings, "equip": equip}
