"""Types of what comes in that refuse what they do not know, mirrored from the nouns of the core.

`strict(WorkloadSpec)` is the same tree of fields as a msgspec struct that forbids unknown
fields and bounds every string, list and number, so the two can never
drift apart. The JSON Schemas of the OpenAPI document come from these types.
"""

from __future__ import annotations

import functools
import operator
import types
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from shared.core.admission.pods import LONG_TEXT_MAX, PODS_MAX
from shared.core.model.units import UNBOUNDED, UNLIMITED
from shared.core.quota.queue_policy import POLICY_SECONDS_MAX

INTEGER_MAX: Final = 2**53
TEXT_LENGTH_MAX: Final = 1024
NAME_LENGTH_MAX: Final = 253
ITEMS_MAX: Final = 1000
PRINTABLE: Final = r"^[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]*$(?!\n)"
"""Without control characters, line breaks and marks of direction: others read it on terminals.
`$` alone would take a line break at the end."""

Amount = Annotated[int, Meta(ge=0, le=UNLIMITED)]
_Words = Annotated[
    tuple[Annotated[str, Meta(max_length=LONG_TEXT_MAX)], ...], Meta(max_length=ITEMS_MAX)
]
_Wait = Annotated[int, Meta(ge=0, le=POLICY_SECONDS_MAX)]


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit by unit; a unit that is not named is unlimited."""

    gpu_milli: Amount = UNLIMITED
    """GPUs in thousandths: 1000 is one whole GPU."""
    cpu_milli: Amount = UNLIMITED
    """CPU in thousandths of a core."""
    memory_mib: Amount = UNLIMITED
    """Memory in MiB."""


_BOUNDS: Final[dict[tuple[str, str], Any]] = {
    ("WorkloadSpec", "name"): Annotated[str, Meta(max_length=NAME_LENGTH_MAX)],
    ("WorkloadSpec", "queue"): Annotated[str, Meta(max_length=NAME_LENGTH_MAX)],
    ("WorkloadSpec", "priority_class"): Annotated[str, Meta(max_length=NAME_LENGTH_MAX)],
    ("PodSet", "count"): Annotated[int, Meta(ge=-INTEGER_MAX, le=PODS_MAX)],
    ("Resources", "gpu_milli"): Amount,
    ("Resources", "cpu_milli"): Amount,
    ("Resources", "memory_mib"): Amount,
    ("FlavorQuota", "nominal"): ResourceLimits,
    ("FlavorQuota", "borrowing_limit"): ResourceLimits | None,
    ("FlavorQuota", "lending_limit"): ResourceLimits | None,
    ("QueuePolicy", "min_runtime_seconds"): _Wait,
    ("QueuePolicy", "cooldown_seconds"): _Wait,
    ("QueuePolicy", "preemption_delay_seconds"): _Wait,
    ("PodSet", "command"): _Words,
    ("PodSet", "arguments"): _Words,
    ("PodSet", "environment"): Annotated[
        dict[
            Annotated[str, Meta(max_length=NAME_LENGTH_MAX)],
            Annotated[str, Meta(max_length=LONG_TEXT_MAX)],
        ],
        Meta(max_length=100),
    ],
}
_PRINTABLE_TEXT: Final = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX, pattern=PRINTABLE)]
_PLAIN: Final[dict[Any, Any]] = {
    str: Annotated[str, Meta(max_length=TEXT_LENGTH_MAX)],
    int: Annotated[int, Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)],
    float: Annotated[float, Meta(ge=-1e15, le=1e15)],
}


@dataclass(frozen=True, slots=True)
class _Way:
    """How a type and those below it are mirrored."""

    suffix: str
    printable: bool


@functools.cache
def strict(
    source: type,
    *,
    suffix: str = "Request",
    printable: bool = False,
    name: str = "",
    leave_out: frozenset[str] = frozenset(),
    add: tuple[Any, ...] = (),
    complete: bool = False,
) -> type[msgspec.Struct]:
    """The strict mirror of a struct without the fields `leave_out`.

    It is called `name`, or as its source with `suffix`, which also tells the nested ones apart;
    `add` holds further or other fields in the form of `msgspec.defstruct`. With `complete` its
    own fields have no defaults; those of nested structs keep them. With `printable` no text has
    control characters; of a submission `core.admission` says so, in half the time.
    """
    way = _Way(suffix, printable)
    hints = typing.get_type_hints(source)
    fields: list[Any] = []
    for field, default in _defaults(source, way):
        if field in leave_out:
            continue
        annotation = _BOUNDS.get((source.__name__, field)) or _mirror(hints[field], way)
        fields.append((field, annotation, *(() if complete else default)))
    return msgspec.defstruct(
        name or f"{source.__name__}{suffix}",
        [*fields, *add],
        kw_only=True,
        frozen=True,
        forbid_unknown_fields=True,
        namespace={"__doc__": source.__doc__, "mirror_of": source},
        module=__name__,
    )


def source_of(mirror: type) -> type:
    """The struct that `strict` mirrored; any other struct is its own source."""
    source: type = getattr(mirror, "mirror_of", mirror)
    return source


def _defaults(source: type, way: _Way) -> list[tuple[str, tuple[Any, ...]]]:
    return [(field.name, _default(field, way)) for field in msgspec.structs.fields(source)]


def _default(field: Any, way: _Way) -> tuple[Any, ...]:  # noqa: ANN401  # FieldInfo is not public
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return () if field.default is msgspec.NODEFAULT else (_mirrored_default(field.default, way),)


def _mirrored_default(value: Any, way: _Way) -> Any:  # noqa: ANN401  # the default of any field
    if isinstance(value, tuple):
        return tuple(_mirrored_default(item, way) for item in value)
    if value == UNBOUNDED:
        return ResourceLimits()
    if isinstance(value, msgspec.Struct):
        return msgspec.convert(
            value,
            strict(type(value), suffix=way.suffix, printable=way.printable),
            from_attributes=True,
        )
    return value


def _mirror(annotation: Any, way: _Way) -> Any:  # noqa: ANN401  # any annotation
    origin = typing.get_origin(annotation)
    if origin is None:
        return _mirror_plain(annotation, way)
    arguments = typing.get_args(annotation)
    if origin is tuple:
        return Annotated[tuple[_mirror(arguments[0], way), ...], Meta(max_length=ITEMS_MAX)]  # type: ignore[misc]  # built at run time
    if origin is dict:
        key, value = (_mirror(one, way) for one in arguments)
        return Annotated[dict[key, value], Meta(max_length=ITEMS_MAX)]  # type: ignore[valid-type]  # built at run time
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, (_mirror(one, way) for one in arguments))
    raise TypeError(f"{annotation}: a request cannot hold this type")


def _mirror_plain(annotation: Any, way: _Way) -> Any:  # noqa: ANN401  # any annotation
    is_class = isinstance(annotation, type)
    if is_class and issubclass(annotation, msgspec.Struct):
        return strict(annotation, suffix=way.suffix, printable=way.printable)
    if is_class and issubclass(annotation, Enum):
        return annotation
    if annotation is str and way.printable:
        return _PRINTABLE_TEXT
    return _PLAIN.get(annotation, annotation)
