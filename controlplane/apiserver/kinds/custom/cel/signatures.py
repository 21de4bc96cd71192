"""Signatures of functions: the declarations of every library that rules may use.

Upstream: cel-go's standard library with its strings, lists, sets, optional types and two-variable
comprehensions, and apiserver pkg/cel/library.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.macros import SORT_BY
from controlplane.apiserver.kinds.custom.cel.types import Type, read_type

__all__ = ["DEVICES", "FUNCTIONS", "METHODS", "NAMED_TYPES", "Overload"]


@frozen(eq=False)
class Overload:
    """One form of a function.

    Attributes:
        takes: the types of its arguments, a method's target first.
        gives: the type of its result.
        costs_as: the name of the rule for its costs, "" where the function's own rule or none
            applies; see `call_costs` and `metering`.
    """

    takes: tuple[Type, ...]
    gives: Type
    costs_as: str = ""


DEVICES: Final = "@devices"
"""Among the types of an expression's variables: it is a selector of devices, which may also call `cel.bind` and
`includes`."""
_TEXT: Final = """
_==_(A, A) bool #equals; _!=_(A, A) bool #equals
_&&_(bool, bool) bool #logical; _||_(bool, bool) bool #logical; !_(bool) bool
_?_:_(bool, A, A) A #conditional; @not_strictly_false(bool) bool
@in(A, list(A)) bool #in_list; @in(A, map(A, B)) bool
_[_](list(A), int) A #index_list; _[_](map(A, B), A) B #index_map
_[_](optional_type(list(A)), int) optional_type(A); _[_](optional_type(map(A, B)), A) optional_type(B)
_[?_](list(A), int) optional_type(A); _[?_](map(A, B), A) optional_type(B)
_[?_](optional_type(list(A)), int) optional_type(A); _[?_](optional_type(map(A, B)), A) optional_type(B)
_+_(int, int) int; _+_(uint, uint) uint; _+_(double, double) double; _+_(string, string) string #add_text
_+_(bytes, bytes) bytes #add_text; _+_(list(A), list(A)) list(A) #add_list; _+_(timestamp, duration) timestamp
_+_(duration, timestamp) timestamp; _+_(duration, duration) duration
_-_(int, int) int; _-_(uint, uint) uint; _-_(double, double) double
_-_(timestamp, timestamp) duration; _-_(timestamp, duration) timestamp; _-_(duration, duration) duration
_*_(int, int) int; _*_(uint, uint) uint; _*_(double, double) double
_/_(int, int) int; _/_(uint, uint) uint; _/_(double, double) double
_%_(int, int) int; _%_(uint, uint) uint
-_(int) int; -_(double) double
size(string) int; size(bytes) int; size(list(A)) int; size(map(A, B)) int
int(int) int; int(uint) int; int(double) int; int(string) int; int(timestamp) int; int(duration) int
uint(int) uint; uint(uint) uint; uint(double) uint; uint(string) uint
double(int) double; double(uint) double; double(double) double; double(string) double
bool(bool) bool; bool(string) bool; bytes(bytes) bytes; bytes(string) bytes #to_bytes
string(string) string; string(bool) string; string(bytes) string #to_string; string(double) string
string(duration) string; string(int) string; string(timestamp) string; string(uint) string
string(net.IP) string; string(net.CIDR) string
duration(duration) duration; duration(string) duration; duration(int) duration
timestamp(timestamp) timestamp; timestamp(string) timestamp; timestamp(int) timestamp
dyn(A) dyn; type(A) type(A); matches(string, string) bool
quantity(string) kubernetes.Quantity; isQuantity(string) bool; sign(kubernetes.Quantity) int
ip(string) net.IP; isIP(string) bool; ip.isCanonical(string) bool
cidr(string) net.CIDR; isCIDR(string) bool
url(string) kubernetes.URL; isURL(string) bool
semver(string) kubernetes.Semver; semver(string, bool) kubernetes.Semver
isSemver(string) bool; isSemver(string, bool) bool
sets.contains(list(A), list(A)) bool #sets; sets.equivalent(list(A), list(A)) bool #sets_twice
sets.intersects(list(A), list(A)) bool #sets; lists.range(int) list(int) #range
strings.quote(string) string #quote; jsonpatch.escapeKey(string) string
optional.of(A) optional_type(A); optional.none() optional_type(A)
optional.ofNonZeroValue(A) optional_type(A); optional.unwrap(list(optional_type(A))) list(A)
cel.@mapInsert(map(A, B), A, B) map(A, B); cel.@mapInsert(map(A, B), map(A, B)) map(A, B)
format.named(string) optional_type(kubernetes.NamedFormat)
"""

_FORMATS: Final = (
    "dns1123Label dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix "
    "dns1123SubdomainPrefix dns1035LabelPrefix labelValue uri uuid byte date datetime"
).split()

_METHOD_TEXT: Final = """
string.size() int; bytes.size() int; list(A).size() int; map(A, B).size() int
string.contains(string) bool #contains; string.startsWith(string) bool #affix
string.endsWith(string) bool #affix; string.matches(string) bool #matches; string.charAt(int) string
string.indexOf(string) int; string.indexOf(string, int) int
string.lastIndexOf(string) int; string.lastIndexOf(string, int) int
string.lowerAscii() string; string.upperAscii() string; string.trim() string
string.replace(string, string) string; string.replace(string, string, int) string
string.split(string) list(string); string.split(string, int) list(string)
string.substring(int) string; string.substring(int, int) string
string.format(list(dyn)) string #format; list(string).join() string; list(string).join(string) string
string.find(string) string; string.findAll(string) list(string); string.findAll(string, int) list(string)
list(A).indexOf(A) int; list(A).lastIndexOf(A) int
list(A).distinct() list(A) #distinct; list(A).reverse() list(A) #reverse
list(A).slice(int, int) list(A) #slice
list(list(A)).flatten() list(A) #flatten; list(dyn).flatten(int) list(dyn) #flatten
list(A).first() optional_type(A); list(A).last() optional_type(A)
list(optional_type(A)).unwrapOpt() list(A)
optional_type(A).hasValue() bool; optional_type(A).value() A; optional_type(A).orValue(A) A
optional_type(A).or(optional_type(A)) optional_type(A)
kubernetes.Quantity.isInteger() bool
kubernetes.Quantity.asInteger() int; kubernetes.Quantity.asApproximateFloat() double
kubernetes.Quantity.isGreaterThan(kubernetes.Quantity) bool
kubernetes.Quantity.isLessThan(kubernetes.Quantity) bool
kubernetes.Quantity.compareTo(kubernetes.Quantity) int
kubernetes.Quantity.add(kubernetes.Quantity) kubernetes.Quantity; kubernetes.Quantity.add(int) kubernetes.Quantity
kubernetes.Quantity.sub(kubernetes.Quantity) kubernetes.Quantity; kubernetes.Quantity.sub(int) kubernetes.Quantity
net.IP.family() int; net.IP.isUnspecified() bool; net.IP.isLoopback() bool
net.IP.isLinkLocalMulticast() bool; net.IP.isLinkLocalUnicast() bool; net.IP.isGlobalUnicast() bool
net.CIDR.containsIP(string) bool #containsIP_text; net.CIDR.containsIP(net.IP) bool
net.CIDR.containsCIDR(string) bool #containsCIDR_text; net.CIDR.containsCIDR(net.CIDR) bool
net.CIDR.ip() net.IP #member; net.CIDR.masked() net.CIDR; net.CIDR.prefixLength() int
kubernetes.URL.getScheme() string; kubernetes.URL.getHost() string
kubernetes.URL.getHostname() string; kubernetes.URL.getPort() string
kubernetes.URL.getEscapedPath() string; kubernetes.URL.getQuery() map(string, list(string))
kubernetes.Semver.major() int; kubernetes.Semver.minor() int; kubernetes.Semver.patch() int
kubernetes.Semver.isGreaterThan(kubernetes.Semver) bool
kubernetes.Semver.isLessThan(kubernetes.Semver) bool; kubernetes.Semver.compareTo(kubernetes.Semver) int
dyn.includes(dyn) bool #includes
kubernetes.NamedFormat.validate(string) optional_type(list(string))
timestamp.getFullYear() int; timestamp.getFullYear(string) int
timestamp.getMonth() int; timestamp.getMonth(string) int
timestamp.getDayOfYear() int; timestamp.getDayOfYear(string) int
timestamp.getDayOfMonth() int; timestamp.getDayOfMonth(string) int
timestamp.getDate() int; timestamp.getDate(string) int
timestamp.getDayOfWeek() int; timestamp.getDayOfWeek(string) int
timestamp.getHours() int; timestamp.getHours(string) int; duration.getHours() int
timestamp.getMinutes() int; timestamp.getMinutes(string) int; duration.getMinutes() int
timestamp.getSeconds() int; timestamp.getSeconds(string) int; duration.getSeconds() int
timestamp.getMilliseconds() int; timestamp.getMilliseconds(string) int; duration.getMilliseconds() int
kubernetes.authorization.Authorizer.path(string) kubernetes.authorization.PathCheck
kubernetes.authorization.Authorizer.group(string) kubernetes.authorization.GroupCheck
kubernetes.authorization.Authorizer.serviceAccount(string, string) kubernetes.authorization.Authorizer
kubernetes.authorization.GroupCheck.resource(string) kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck.subresource(string) kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck.namespace(string) kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck.name(string) kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck.fieldSelector(string) kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck.labelSelector(string) kubernetes.authorization.ResourceCheck
kubernetes.authorization.ResourceCheck.check(string) kubernetes.authorization.Decision
kubernetes.authorization.PathCheck.check(string) kubernetes.authorization.Decision
kubernetes.authorization.Decision.allowed() bool; kubernetes.authorization.Decision.reason() string
kubernetes.authorization.Decision.errored() bool; kubernetes.authorization.Decision.error() string
"""

_ORDERED: Final = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_MIXED: Final = (
    ("int", "uint"),
    ("int", "double"),
    ("uint", "int"),
    ("uint", "double"),
    ("double", "int"),
    ("double", "uint"),
)

NAMED_TYPES: Final = {
    name: read_type(kind)
    for name, kind in (
        ("bool", "bool"),
        ("int", "int"),
        ("uint", "uint"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "bytes"),
        ("list", "list(dyn)"),
        ("map", "map(dyn, dyn)"),
        ("null_type", "null"),
        ("type", "type(dyn)"),
    )
}
"""Names that stand for types."""


def _split(text: str) -> list[Type]:
    whole = read_type(f"x({text})") if text.strip() else None
    return list(whole.params) if whole is not None else []


def _closing(text: str, at: int) -> int:
    depth = 0
    while True:
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return at
        at += 1


def _lines(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(";")]


def _made(takes: list[Type], rest: str) -> Overload:
    """An overload whose text goes on with its result, and maybe the rule for its costs."""
    gives, _, costs_as = rest.partition("#")
    return Overload(tuple(takes), read_type(gives), costs_as.strip())


def _functions() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in _lines(_TEXT):
        at = line.index("(")
        close = _closing(line, at)
        made = _made(_split(line[at + 1 : close]), line[close + 1 :])
        found.setdefault(line[:at], []).append(made)
    for sign in ("<", "<=", ">", ">="):
        pairs = [*((name, name) for name in _ORDERED), *_MIXED]
        found[f"_{sign}_"] = [
            Overload(
                (read_type(a), read_type(b)),
                read_type("bool"),
                "compare_text" if a in ("string", "bytes") else "",
            )
            for a, b in pairs
        ]
    for name in _FORMATS:
        found[f"format.{name}"] = [Overload((), read_type("kubernetes.NamedFormat"))]
    return found


def _methods() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in _lines(_METHOD_TEXT):
        # The arguments are the last parentheses before the result.
        at = _arguments_at(line)
        dot = line.rindex(".", 0, at)
        close = _closing(line, at)
        made = _made([read_type(line[:dot]), *_split(line[at + 1 : close])], line[close + 1 :])
        found.setdefault(line[dot + 1 : at], []).append(made)
    items = read_type("list(A)")
    for name in _ORDERED:
        kind = read_type(f"list({name})")
        sort = "sort_text" if name in ("string", "bytes") else "sort"
        found.setdefault("isSorted", []).append(Overload((kind,), read_type("bool")))
        found.setdefault("sort", []).append(Overload((kind,), kind, sort))
        found.setdefault(SORT_BY, []).append(Overload((items, kind), items, f"{sort}_by"))
        for one in ("min", "max"):
            found.setdefault(one, []).append(Overload((kind,), read_type(name)))
        if name in ("int", "uint", "double", "duration"):
            found.setdefault("sum", []).append(Overload((kind,), read_type(name)))
    return found


def _arguments_at(line: str) -> int:
    """Return the position at which a method's arguments open: after the name that follows the target's type."""
    at = line.index("(")
    if line[:at] in ("list", "map", "optional_type"):
        return line.index("(", _closing(line, at) + 1)
    return at


FUNCTIONS: Final = _functions()
METHODS: Final = _methods()
