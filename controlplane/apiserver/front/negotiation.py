"""Content negotiation: the media type, and whether as Table or metadata only.

Upstream: apiserver pkg/endpoints/handlers/negotiation.
"""

from __future__ import annotations

from attrs import frozen

from controlplane.api.request import Request
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.cbor.writing import MEDIA_TYPE as CBOR

__all__ = [
    "CBOR",
    "PLAIN",
    "PROTOBUF",
    "Format",
    "check_media",
    "check_stream",
    "error_media",
    "media_of",
    "negotiate",
    "parse_accept",
    "supported",
]

PROTOBUF = "application/vnd.kubernetes.protobuf"
_SUPPORTED = ("application/json", "application/yaml", PROTOBUF)
_STREAMS = tuple(f"{media};stream=watch" for media in ("application/json", PROTOBUF))
_BINARY = (PROTOBUF, CBOR)
_KINDS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


@frozen
class Format:
    """The chosen format. `kind` is "" for the object itself."""

    media_type: str = "application/json"
    kind: str = ""
    version: str = ""

    @property
    def packs(self) -> bool:
        """True for a form that is not text."""
        return self.media_type in _BINARY

    @property
    def plain(self) -> bool:
        """True for the object itself in JSON."""
        return not self.kind and self.media_type == "application/json"


PLAIN = Format()


@frozen
class Clause:
    """One alternative of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float


def parse_accept(header: str) -> list[Clause]:
    """The alternatives, best first; equal ones keep their order."""
    clauses = []
    for part in header.split(","):
        pieces = [piece.strip() for piece in part.split(";")]
        media = pieces[0]
        parameters: dict[str, str] = {}
        for piece in pieces[1:]:
            key, _, value = piece.partition("=")
            parameters[key.strip()] = value.strip().strip('"')
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        if media:
            clauses.append(Clause(media, parameters, quality))
    clauses.sort(key=lambda clause: -clause.quality)
    return clauses


def _accepts(clause: Clause, media: str) -> bool:
    if clause.media_type in ("*/*", media):
        return True
    main, _, sub = clause.media_type.partition("/")
    return sub == "*" and media.startswith(main + "/")


def supported(*, cbor: bool) -> tuple[str, ...]:
    """Return the media types of objects; CBOR has a gate (CBORServingAndStorage)."""
    return (*_SUPPORTED, CBOR) if cbor else _SUPPORTED


def negotiate(
    request: Request,
    *,
    protobuf: bool = False,
    tables: bool = True,
    routed: bool = True,
    cbor: bool = False,
) -> Format:
    """The format of the answer. ApiError 406 when nothing fits.

    `protobuf`, `tables`: the kind can be written so. `routed`: the path has a route, which looks first. `cbor`: CBOR
    is served.
    """
    header = request.accept
    if not header or header == "application/json":
        return PLAIN
    if routed:
        check_media(header, supported(cbor=cbor), streams=request.verb in ("list", "watch"))
    for clause in parse_accept(header):
        for media in supported(cbor=cbor):
            if not _accepts(clause, media):
                continue
            chosen = _with_kind(clause, media, request)
            if chosen is None or (chosen.kind == "Table" and not tables):
                continue
            if media == PROTOBUF and (chosen.kind == "Table" or not (protobuf or chosen.kind)):
                continue
            return chosen
    raise status.not_acceptable(supported(cbor=cbor))


def media_of(clause: Clause, written: tuple[str, ...]) -> str:
    """Return the first of these media types that an alternative accepts, "" if it accepts none."""
    return next((media for media in written if _accepts(clause, media)), "")


def check_media(
    header: str, produced: tuple[str, ...] = _SUPPORTED, *, streams: bool = False
) -> None:
    """Before anything else, some alternative must be a media type that the route produces. ApiError 406.

    `streams`: the route offers watches, too.
    """
    for clause in parse_accept(header):
        if clause.media_type in ("*/*", *produced):
            return
    if not header:
        return
    listed = ", ".join((*produced, *_streams(cbor=CBOR in produced)) if streams else produced)
    raise status.ApiError(
        406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {listed}", {}
    )


def _streams(*, cbor: bool) -> tuple[str, ...]:
    return (*_STREAMS, f"{CBOR};stream=watch") if cbor else _STREAMS


def check_stream(chosen: Format, *, cbor: bool = False) -> None:
    """Refuse a watch in a format without framing. ApiError 406. Upstream: NegotiateOutputMediaTypeStream."""
    if f"{chosen.media_type};stream=watch" not in _streams(cbor=cbor):
        raise status.not_acceptable(_streams(cbor=cbor))


def error_media(header: str, *, cbor: bool = False) -> str:
    """The media type of an error: what is asked for as an object, or JSON. Upstream: WriteObjectNegotiated."""
    for clause in parse_accept(header):
        for media in supported(cbor=cbor):
            if _accepts(clause, media) and not clause.parameters.get("as"):
                return media
    return _SUPPORTED[0]


def _with_kind(clause: Clause, media: str, request: Request) -> Format | None:
    wanted = clause.parameters.get("as", "")
    if not wanted:
        if request.verb == "watch" and clause.parameters.get("stream", "watch") != "watch":
            return None
        return Format(media)
    group = clause.parameters.get("g", "")
    version = clause.parameters.get("v", "")
    if wanted not in _KINDS or group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    return Format(media, wanted, version)
