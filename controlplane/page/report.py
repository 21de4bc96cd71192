"""The page with one run in it, or two side by side, as one file without dependencies.

Modules are put together in the order in which they need each other, and the page says by their digests
that nothing but them may run (Content-Security-Policy). The runs stand in it compressed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from controlplane.page.model import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.page.model import Model

__all__ = ["bundle", "report", "static"]

ENTRY = "main.js"
STYLES = ("style.css", "live.css")
_IMPORT = re.compile(r'^import \{([^}\n]*)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
_LEFT = re.compile(r"^(import|export)\b|^const \{[^}\n]* as ", re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:class|function|const) (\w+))", re.MULTILINE)


def static(name: str) -> str:
    """A file of the page."""
    return resources.files("controlplane.page").joinpath("static", name).read_text("utf-8")


def bundle(entry: str = ENTRY) -> str:
    """A module and all that it imports as one, each in a scope of its own. ValueError for what this cannot do:
    modules that need each other, imports and exports of another form than `{ names }` and declarations.
    """
    done: dict[str, str] = {}
    under_way: list[str] = []

    def add(name: str) -> None:
        if name in done:
            return
        if name in under_way:
            raise ValueError(f"{' -> '.join([*under_way, name])}: these modules need each other")
        under_way.append(name)
        text = static(name)
        for _, needed in _IMPORT.findall(text):
            add(f"{needed}.js")
        exported = ", ".join(found for _, found in _EXPORT.findall(text))
        body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const {\1} = module_\2;\n", text))
        if _LEFT.search(body):
            raise ValueError(
                f"{name}: only imports of names, without `as`, and exported declarations"
            )
        stem = name.removesuffix(".js")
        done[name] = f"const module_{stem} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"
        under_way.pop()

    add(entry)
    return "".join(done.values())


def report(models: Sequence[Model], difference: Mapping[str, Any] | None = None) -> str:
    """The file's text."""
    script, style = bundle(), "\n".join(map(static, STYLES))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    parts = [_data("run", encode(model.since())) for model in models]
    if difference is not None:
        parts.append(_data("difference", encode(difference)))
    name = str(models[0].run.get("scenario") or models[0].run.get("name", "run"))
    return _filled(
        static("index.html"),
        {
            '<meta charset="utf-8">\n': '<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            "<title>controlplane</title>": f"<title>{escape(name)} - controlplane</title>",
            "\n".join(
                f'<link rel="stylesheet" href="{name}">' for name in STYLES
            ): f"<style>{style}</style>",
            '<script type="module" src="main.js"></script>': "\n".join(parts)
            + f'\n<script type="module">{script}</script>',
        },
    )


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, wanted in places.items():
        before, found, after = text.partition(place)
        if not found:
            raise ValueError(f"index.html has no {place.strip()!r}")
        text = before + wanted + after
    return text


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(part: str, content: bytes) -> str:
    """Base64 has no letter that could end the element."""
    packed = base64.b64encode(zlib.compress(content, 9)).decode()
    return f'<script type="application/octet-stream" data-part="{part}">{packed}</script>'
