"""One request to a served cluster, by a program on the same machine that blocks until the answer is there."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from controlplane.errors import UsageError

if TYPE_CHECKING:
    from controlplane.apiserver.http.kubeconfig import Address

__all__ = ["ask", "ask_text", "exchange"]


def ask(
    address: Address, method: str, path: str, body: Any = None, *, seconds: float | None = None
) -> Any:
    """Return the JSON that a served cluster answers.

    Args:
        address: the cluster, as its kubeconfig has it.
        method: the HTTP method.
        path: the path, with its query.
        body: a JSON value, None for no body.
        seconds: the longest wait for the answer, None for no limit.

    Raises UsageError with the server's message if it refuses, and if there is no answer.
    """
    data = None if body is None else json.dumps(body).encode()
    return json.loads(ask_text(address, method, path, data, seconds=seconds))


def ask_text(
    address: Address,
    method: str,
    path: str,
    data: bytes | None = None,
    *,
    seconds: float | None = None,
) -> str:
    """Return the text that a served cluster answers; arguments and errors are those of `ask`, the body is bytes."""
    code, text = exchange(address, method, path, data, seconds=seconds)
    if code >= 400:
        raise UsageError(_message(text) or f"{address.url}: HTTP Error {code}")
    return text


def exchange(
    address: Address,
    method: str,
    path: str,
    data: bytes | None = None,
    *,
    seconds: float | None = None,
) -> tuple[int, str]:
    """Return the code and the text that a served cluster answers, refusals included; arguments are those of `ask_text`.

    Raises UsageError if there is no answer.
    """
    context = None
    if address.authority:
        context = ssl.create_default_context(cadata=address.authority.decode("ascii"))
    request = Request(address.url + path, data=data, method=method)  # noqa: S310
    if data is not None:
        request.add_header("Content-Type", "application/json")
    if address.token:
        request.add_header("Authorization", f"Bearer {address.token}")
    try:
        with urlopen(request, context=context, timeout=seconds) as answer:  # noqa: S310
            return answer.status, str(answer.read().decode())
    except HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise UsageError(f"{address.url}: no answer: {reason}") from error


def _message(body: str) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""
