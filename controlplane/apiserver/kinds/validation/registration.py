"""API services and certificate signing requests.

Upstream: kube-aggregator pkg/apis/apiregistration/validation, pkg/apis/certificates/validation.
"""

from __future__ import annotations

import base64
import binascii
import re

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.checks import entries, present, problems, repeated
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
)

__all__ = [
    "validate_api_service", "validate_api_service_status", "validate_signing_request",
    "validate_signing_request_status",
]  # fmt: skip

MIN_SECONDS = 600
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection",
    "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth",
    "signing", "timestamping",
)  # fmt: skip
_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----\s*\n((?:[A-Za-z0-9+/=]+\s*\n)*)-----END \1-----")


def validate_api_service(tree: Tree) -> list[FieldError]:
    """An APIService; its name is version and group."""
    spec = tree.get("spec") or {}
    name = (tree.get("metadata") or {}).get("name", "")
    group, version = spec.get("group", ""), spec.get("version", "")
    wanted = f"{version}.{group}"
    errors: list[FieldError] = []
    if name and not names.path_segment(name) and name != wanted:
        text = f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}'
        errors.append(invalid("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", text))
    if group:
        errors += problems("spec.group", group, names.dns_subdomain(group))
    errors += problems("spec.version", version, names.dns_1035_label(version))
    for key, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        value = spec.get(key, 0)
        if not 0 < value <= most:
            text = f"must be positive and less than {most}"
            errors.append(invalid(f"spec.{key}", value, text))
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    trusting = bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            size = len(base64.b64decode(bundle))
            text = "local APIServices may not have a caBundle"
            errors.append(invalid("spec.caBundle", f"{size} bytes", text))
        if trusting:
            text = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
        return errors
    errors += present(service, "namespace", "spec.service") + present(
        service, "name", "spec.service"
    )
    port = service.get("port", 443)
    found = names.port_number(port)
    if found:
        text = f"port is not valid: {','.join(found)}"
        errors.append(invalid("spec.service.port", port, text))
    if trusting and bundle:
        text = "may not be true if caBundle is present"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return errors


def validate_api_service_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Conditions of an APIService are true, false, or not known."""
    return [
        not_supported(f"{path}.status", condition.get("status", ""), _STATES, sort=False)
        for condition, path in entries(new.get("status") or {}, "conditions", "status")
        if condition.get("status", "") not in _STATES
    ]


_STATES = ("True", "False", "Unknown")


# -- certificate signing requests ----------------------------------------------------------------


def validate_signing_request(tree: Tree) -> list[FieldError]:
    """A CertificateSigningRequest."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    problem = _request_problem(spec.get("request") or "")
    if problem:
        errors.append(invalid("spec.request", spec.get("request"), problem))
    errors += present(spec, "usages", "spec")
    listed = [(usage, f"spec.usages[{i}]") for i, usage in enumerate(spec.get("usages") or ())]
    errors += [
        not_supported(place, usage, _USAGES) for usage, place in listed if usage not in _USAGES
    ]
    errors += repeated(listed)
    errors += _signer(spec.get("signerName", ""))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < MIN_SECONDS:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    return errors + _conditions(tree)


def _request_problem(text: str) -> str:
    """Return why the bytes are not a certificate request; "" if they are one."""
    try:
        raw = base64.b64decode(text)
    except (binascii.Error, ValueError):
        raw = b""
    found = _PEM.search(raw)
    if found is None or found[1] not in (b"CERTIFICATE REQUEST", b"NEW CERTIFICATE REQUEST"):
        return _NO_BLOCK
    try:
        der = base64.b64decode(b"".join(found[2].split()))
    except binascii.Error:  # Go finds no block there
        return _NO_BLOCK
    from cryptography import x509

    try:
        x509.load_der_x509_csr(der)
    except ValueError:
        return _asn1_problem(der)
    return ""


_NO_BLOCK = "PEM block type must be CERTIFICATE REQUEST"


def _asn1_problem(der: bytes) -> str:
    """Go's words for bytes that are no such structure, as far as lengths tell."""
    if len(der) < 2:
        return "asn1: syntax error: sequence truncated"
    length, head = der[1], 2
    if length & 0x80:
        head += length & 0x7F
        length = int.from_bytes(der[2:head], "big")
    if head + length > len(der):
        return "asn1: syntax error: data truncated"
    return "asn1: structure error: tags don't match"


def _signer(name: str) -> list[FieldError]:
    path = "spec.signerName"
    if not name:
        return [required(path)]
    if name == "kubernetes.io/legacy-unknown":
        text = "the legacy signerName is not allowed via this API version"
        return [invalid(path, name, text)]
    parts = name.split("/")
    if len(parts) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, name, text)]
    domain, rest = parts
    errors: list[FieldError] = []
    if domain.count(".") < 1:
        text = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, text))
    for part in (domain, rest):
        for label in part.split("."):
            texts = (
                f"validating label {go_quote(label)}: {text}" for text in names.dns_label(label)
            )
            errors += problems(path, part, texts)
    return errors


def _conditions(tree: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for condition, path in entries(tree.get("status") or {}, "conditions", "status"):
        kind, value = condition.get("type", ""), condition.get("status", "")
        if not kind:
            errors.append(required(f"{path}.type"))
        allowed = ("True",) if kind in _LASTING else _STATES
        if not value:
            errors.append(required(f"{path}.status"))
        elif value not in allowed:
            errors.append(not_supported(f"{path}.status", value, allowed))
        other = {"Approved": "Denied", "Denied": "Approved"}.get(kind)
        if other in seen:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid("status.conditions", kind, text))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    return errors


_LASTING = ("Approved", "Denied", "Failed")


def validate_signing_request_status(new: Tree, old: Tree, *, approving: bool) -> list[FieldError]:
    """A decision or a certificate: neither can be taken back, and each has its own endpoint."""
    errors: list[FieldError] = []
    where = "status.conditions"
    for kind in _LASTING:
        had, has = _of_type(old, kind), _of_type(new, kind)
        if len(has) < len(had):
            text = f"updates may not remove a condition of type {go_quote(kind)}"
            errors.append(forbidden(where, text))
    for kind in () if approving else ("Approved", "Denied"):
        had, has = _of_type(old, kind), _of_type(new, kind)
        if len(has) > len(had):
            text = f"updates may not add a condition of type {go_quote(kind)}"
            errors.append(forbidden(where, text))
    certificate, was = ((tree.get("status") or {}).get("certificate") for tree in (new, old))
    if was and certificate != was:
        text = "updates may not modify existing certificate content"
        errors.append(forbidden("status.certificate", text))
    return errors


def _of_type(tree: Tree, kind: str) -> list[Tree]:
    conditions: list[Tree] = (tree.get("status") or {}).get("conditions") or []
    return [each for each in conditions if each.get("type") == kind]
