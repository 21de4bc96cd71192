"""PEM blocks, certificate requests and certificates: reading them, and Go's errors for unreadable ones.

Upstream: pkg/apis/certificates/helpers.go and validation/validation.go; Go's encoding/pem, encoding/asn1
and crypto/x509.
"""

from __future__ import annotations

import base64
import binascii
import re

from attrs import frozen

from controlplane.api.validation import quote

__all__ = [
    "Block",
    "certificate_problem",
    "decoded",
    "first_block",
    "organizations",
    "request_problem",
]


@frozen
class Block:
    """One PEM block: its type, its content, and whether it has headers."""

    kind: str
    content: bytes
    headers: bool


_BLOCK = re.compile(
    rb"(?:^|(?<=\n))-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)-----END ([^\n]*?)-----[ \t\r]*(?:\n|$)",
    re.DOTALL,
)
_HEADER = re.compile(rb"[^\n:]*:[^\n]*\n")


def decoded(text: str) -> bytes:
    """The bytes of a field that holds base64."""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


def first_block(raw: bytes) -> tuple[Block | None, bytes]:
    """The first PEM block and the bytes that follow it; what is no block is passed over."""
    at = 0
    while (found := _BLOCK.search(raw, at)) is not None:
        body, headers = found[2], False
        while (header := _HEADER.match(body)) is not None:
            body, headers = body[header.end() :], True
        try:
            content = base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error:
            content = None
        if content is not None and found[1] == found[3]:
            return Block(found[1].decode("utf-8", "replace"), content, headers), raw[found.end() :]
        at = found.start() + 1
    return None, raw


def _length_problem(der: bytes) -> tuple[str, int]:
    """Go's error for the head of a value, and where the value ends.

    Args:
        der: the bytes from the value's tag on.
    """
    if len(der) < 2:
        return "asn1: syntax error: truncated tag or length", 0
    head = 2
    if der[0] & 0x1F == 0x1F:  # a tag of several bytes
        head = next((i + 2 for i in range(1, len(der)) if not der[i] & 0x80), len(der) + 1)
        if head > len(der):
            return "asn1: syntax error: truncated base 128 integer", 0
    length = der[head - 1]
    if length & 0x80:
        count = length & 0x7F
        if count == 0:
            return "asn1: syntax error: indefinite length found (not DER)", 0
        if head + count > len(der):
            return "asn1: syntax error: truncated tag or length", 0
        number = der[head : head + count]
        head += count
        if number[0] == 0:
            return "asn1: structure error: superfluous leading zeros in length", 0
        length = int.from_bytes(number, "big")
        if length >= 1 << 31:
            return "asn1: structure error: length too large", 0
        if length < 0x80:
            return "asn1: structure error: non-minimal length", 0
    if head + length > len(der):
        return "asn1: syntax error: data truncated", 0
    return "", head + length


def _request_shape(der: bytes) -> str:
    """Go's error for bytes that no parser reads as a request, as far as tags and lengths tell."""
    if not der:
        return "asn1: syntax error: sequence truncated"
    problem, end = _length_problem(der)
    if problem:
        return problem
    if end < len(der):
        return "asn1: syntax error: trailing data"
    return "asn1: structure error: tags don't match"


def request_problem(der: bytes) -> str:
    """Return why the bytes are no certificate request with a valid signature; "" if they are one."""
    from cryptography import x509

    try:
        request = x509.load_der_x509_csr(der)
    except ValueError:
        return _request_shape(der)
    if not request.is_signature_valid:
        return "x509: signature verification failed"
    return ""


def organizations(text: str) -> list[str]:
    """The organizations of the subject of a valid request."""
    from cryptography import x509

    block, _ = first_block(decoded(text))
    if block is None:
        return []
    subject = x509.load_der_x509_csr(block.content).subject
    return [
        str(each.value) for each in subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    ]


def certificate_problem(text: str) -> str:
    """Return why the content of `status.certificate` is no list of certificates; "" if it is one."""
    raw = decoded(text)
    if not raw:
        return ""
    blocks = 0
    while True:
        block, raw = first_block(raw)
        if block is None:
            return "" if blocks else "must contain at least one CERTIFICATE PEM block"
        if block.kind != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(block.kind)}"
        if block.headers:
            return "no PEM block headers are permitted"
        problem = _certificates_problem(block.content)
        if problem:
            return problem
        blocks += 1


def _certificates_problem(der: bytes) -> str:
    """Return why the content of a block is no certificate; "" if it is one or several."""
    from cryptography import x509

    if not der:
        return "found CERTIFICATE PEM block containing 0 certificates"
    while der:
        problem, end = _length_problem(der)
        if problem or der[0] != 0x30:
            return "x509: malformed certificate"
        try:
            x509.load_der_x509_certificate(der[:end])
        except ValueError:
            return "x509: malformed tbs certificate"
        der = der[end:]
    return ""
