"""Templates of stages: rendered with KWOK's functions and read as YAML. Upstream: pkg/utils/gotpl."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml

from controlplane.api import yaml_text
from controlplane.apiserver.schema import go_json
from controlplane.kwok import gotemplate

__all__ = ["NODE_CONDITIONS", "Renderer", "RenderError", "renderer"]

Renderer = Callable[[str, Mapping[str, Any]], Any]
"""Returns what a template renders an object to, as a JSON value. Raises RenderError."""
NODE_CONDITIONS: Final = tuple(
    {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": None,
        "lastTransitionTime": None,
    }
    for kind, status, reason, message in (
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    )
)  # fmt: skip


class RenderError(ValueError):
    """A template that does not render, or not to YAML; the text begins as upstream's."""


OF_OBJECTS: Final = frozenset(
    "Now now StartTime Version NodeIP NodeName NodePort PodIP NodeIPWith NodeIPsWith PodIPWith PodIPsWith".split()
)
"""The functions that depend on the run or on the object."""
_OF_ALL: Final = ("Quote", "YAML", "NodeConditions")


def check(text: str) -> None:
    """Refuse a template that cannot be parsed. Raises RenderError."""
    try:
        gotemplate.check(text.strip(), (*_OF_ALL, *OF_OBJECTS))
    except gotemplate.TemplateError as error:
        raise RenderError(f"build template: {error}") from None


def _quote(value: Any) -> str:
    text = json.dumps(gotemplate.plain(value), ensure_ascii=False, separators=(",", ":"))
    return text if text[:1] == '"' else json.dumps(text, ensure_ascii=False)


def _yaml(value: Any, *indent: int) -> str:
    text = yaml.dump(
        gotemplate.plain(value), Dumper=yaml_text.dumper(), default_flow_style=False, allow_unicode=True, sort_keys=True
    )  # fmt: skip
    text = text.removesuffix("...\n")
    if len(indent) == 1 and indent[0] > 0:
        return f"\n{text}".replace("\n", "\n" + " " * (2 * indent[0]))
    return text


def renderer(functions: Mapping[str, Callable[..., Any]]) -> Renderer:
    """Return what renders with these functions besides Go's, sprig's and the ones of every template.

    Args:
        functions: those of `OF_OBJECTS`.
    """
    known: dict[str, Callable[..., Any]] = {
        "Quote": _quote,
        "YAML": _yaml,
        "NodeConditions": lambda: list(NODE_CONDITIONS),
        **functions,
    }

    def render(text: str, tree: Mapping[str, Any]) -> Any:
        try:
            made = gotemplate.render(text.strip(), gotemplate.numbers(tree), known)
        except gotemplate.TemplateError as error:
            word = "gotpl execute" if ": executing " in str(error) else "build template"
            raise RenderError(f"{word}: {error}") from None
        return _read(made)

    return render


def _read(text: str) -> Any:
    """Return the JSON value of YAML, as sigs.k8s.io/yaml makes it."""
    try:
        return go_json.parse_yaml(text.encode())
    except go_json.YamlDuplicates as error:
        return error.value
    except go_json.TextError as error:
        raise RenderError(str(error)) from None
