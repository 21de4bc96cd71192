"""Signatures of functions: the declarations of every library that rules may use.

Upstream: cel-go's standard library with its strings, lists, sets, optional types and two-variable
comprehensions, and apiserver pkg/cel/library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import field, frozen

from controlplane.apiserver.kinds.custom.cel.macros import SORT_BY
from controlplane.apiserver.kinds.custom.cel.types import Type, read_type

__all__ = [
    "CONTEXT",
    "DEVICES",
    "FUNCTIONS",
    "KUBERNETES",
    "METHODS",
    "NAMED_TYPES",
    "Library",
    "Overload",
    "standard",
]


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
_STANDARD: Final = """
_==_(A, A) bool #equals; _!=_(A, A) bool #equals
_&&_(bool, bool) bool #logical; _||_(bool, bool) bool #logical; !_(bool) bool
_?_:_(bool, A, A) A #conditional; @not_strictly_false(bool) bool
@in(A, list(A)) bool #in_list; @in(A, map(A, B)) bool
_[_](list(A), int) A #index_list; _[_](map(A, B), A) B #index_map
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
duration(duration) duration; duration(string) duration; duration(int) duration
timestamp(timestamp) timestamp; timestamp(string) timestamp; timestamp(int) timestamp
dyn(A) dyn; type(A) type(A); matches(string, string) bool
"""
_EXTENSIONS: Final = """
_[_](optional_type(list(A)), int) optional_type(A); _[_](optional_type(map(A, B)), A) optional_type(B)
_[?_](list(A), int) optional_type(A); _[?_](map(A, B), A) optional_type(B)
_[?_](optional_type(list(A)), int) optional_type(A); _[?_](optional_type(map(A, B)), A) optional_type(B)
string(net.IP) string; string(net.CIDR) string
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

_STANDARD_METHODS: Final = """
string.size() int; bytes.size() int; list(A).size() int; map(A, B).size() int
string.contains(string) bool #contains; string.startsWith(string) bool #affix
string.endsWith(string) bool #affix; string.matches(string) bool #matches
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
"""
_EXTENSION_METHODS: Final = """
string.charAt(int) string
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
    parts = [part.strip() for line in text.splitlines() for part in line.split(";")]
    return [part for part in parts if part]


def _made(takes: list[Type], rest: str) -> Overload:
    """An overload whose text goes on with its result, and maybe the rule for its costs."""
    gives, _, costs_as = rest.partition("#")
    return Overload(tuple(takes), read_type(gives), costs_as.strip())


def _functions(text: str) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in _lines(text):
        at = line.index("(")
        close = _closing(line, at)
        made = _made(_split(line[at + 1 : close]), line[close + 1 :])
        found.setdefault(line[:at], []).append(made)
    return found


def _methods(text: str) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in _lines(text):
        # The arguments are the last parentheses before the result.
        at = _arguments_at(line)
        dot = line.rindex(".", 0, at)
        close = _closing(line, at)
        made = _made([read_type(line[:dot]), *_split(line[at + 1 : close])], line[close + 1 :])
        found.setdefault(line[dot + 1 : at], []).append(made)
    return found


def _compared(pairs: Iterable[tuple[str, str]]) -> dict[str, list[Overload]]:
    """Return the relations of values of these types."""
    pairs = tuple(pairs)
    return {
        f"_{sign}_": [
            Overload(
                (read_type(a), read_type(b)),
                read_type("bool"),
                "compare_text" if a in ("string", "bytes") else "",
            )
            for a, b in pairs
        ]
        for sign in ("<", "<=", ">", ">=")
    }


def _joined(*tables: Mapping[str, list[Overload]]) -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for table in tables:
        for name, overloads in table.items():
            found[name] = [*found.get(name, ()), *overloads]
    return found


def _extension_functions() -> dict[str, list[Overload]]:
    named = Overload((), read_type("kubernetes.NamedFormat"))
    formats = {f"format.{name}": [named] for name in _FORMATS}
    return _joined(_functions(_EXTENSIONS), _compared(_MIXED), formats)


def _extension_methods() -> dict[str, list[Overload]]:
    found = _methods(_EXTENSION_METHODS)
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


_STANDARD_FUNCTIONS: Final = _joined(
    _functions(_STANDARD), _compared((name, name) for name in _ORDERED)
)
FUNCTIONS: Final = _joined(_STANDARD_FUNCTIONS, _extension_functions())
METHODS: Final = _joined(_methods(_STANDARD_METHODS), _extension_methods())


@frozen(eq=False)
class Library:
    """The functions that an expression may call, and the fields that it may select.

    Attributes:
        functions: the forms of each function, operators included.
        methods: the forms of each method.
        fields: the types of the fields of each type of objects, by the type's name; None where types of variables
            tell their own fields.
        own: functions and methods that the library computes itself; their first argument is the value of `CONTEXT`
            among the variables.
        standard: only the macros and the syntax of cel-go's standard environment.
    """

    functions: Mapping[str, list[Overload]]
    methods: Mapping[str, list[Overload]]
    fields: Mapping[str, Mapping[str, Type]] | None = None
    own: Mapping[str, Callable[..., Any]] = field(factory=dict)
    standard: bool = False


CONTEXT: Final = "@context"
KUBERNETES: Final = Library(FUNCTIONS, METHODS)
"""The functions that rules, selectors and policies of the API server may call."""


def standard(
    functions: str,
    methods: str,
    fields: Mapping[str, Mapping[str, Type]],
    own: Mapping[str, Callable[..., Any]],
) -> Library:
    """Return cel-go's standard library with more functions and methods, written as the tables above are."""
    return Library(
        _joined(_STANDARD_FUNCTIONS, _functions(functions)),
        _joined(_methods(_STANDARD_METHODS), _methods(methods)),
        fields,
        own,
        standard=True,
    )
