"""Content negotiation: the media type, and whether as Table or metadata only.

Upstream: apiserver pkg/endpoints/handlers/negotiation.
"""

from __future__ import annotations

from attrs import frozen

from controlplane.api.request import Request
from controlplane.apiserver.schema import status

__all__ = [
    "PLAIN",
    "PROTOBUF",
    "Format",
    "check_media",
    "check_stream",
    "error_media",
    "media_of",
    "negotiate",
    "parse_accept",
]

PROTOBUF = "application/vnd.kubernetes.protobuf"
_SUPPORTED = ("application/json", "application/yaml", PROTOBUF)
_STREAMS = tuple(f"{media};stream=watch" for media in ("application/json", PROTOBUF))
_KINDS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


@frozen
class Format:
    """The chosen format. `kind` is "" for the object itself."""

    media_type: str = "application/json"
    kind: str = ""
    version: str = ""

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


def negotiate(
    request: Request, *, protobuf: bool = False, tables: bool = True, routed: bool = True
) -> Format:
    """The format of the answer. ApiError 406 when nothing fits.

    `protobuf`, `tables`: the kind can be written so. `routed`: the path has a route, which looks first.
    """
    header = request.accept
    if not header or header == "application/json":
        return PLAIN
    if routed:
        check_media(header, streams=request.verb in ("list", "watch"))
    for clause in parse_accept(header):
        for media in _SUPPORTED:
            if not _accepts(clause, media):
                continue
            chosen = _with_kind(clause, media, request)
            if chosen is None or (chosen.kind == "Table" and not tables):
                continue
            if media == PROTOBUF and (chosen.kind == "Table" or not (protobuf or chosen.kind)):
                continue
            return chosen
    raise status.not_acceptable(_SUPPORTED)


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
    listed = ", ".join((*produced, *_STREAMS) if streams else produced)
    raise status.ApiError(
        406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {listed}", {}
    )


def check_stream(chosen: Format) -> None:
    """Refuse a watch in a format without framing. ApiError 406. Upstream: NegotiateOutputMediaTypeStream."""
    if f"{chosen.media_type};stream=watch" not in _STREAMS:
        raise status.not_acceptable(_STREAMS)


def error_media(header: str) -> str:
    """The media type of an error: what is asked for as an object, or JSON. Upstream: WriteObjectNegotiated."""
    for clause in parse_accept(header):
        for media in _SUPPORTED:
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
