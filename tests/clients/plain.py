"""HTTP by hand with a kubeconfig, for what a test needs besides the client that it is about."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.request
from typing import Any


def send(config: dict[str, Any], method: str, path: str, body: Any = None) -> Any:
    """One request; the parsed answer."""
    cluster = config["clusters"][0]["cluster"]
    context = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    request = urllib.request.Request(
        cluster["server"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {config['users'][0]['user']['token']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, context=context, timeout=20) as answer:
        return json.load(answer)
