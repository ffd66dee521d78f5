"""A JSON body, bounded in bytes and time; what the strict reader refuses is a problem document."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from services.gateway.http.problems import Problem, invalid
from shared.core.model.decision import FieldError
from shared.events.broken_rules import ERRORS_MAX
from shared.events.strict_reader import BODY_BYTES_MAX, BadInput, parse, read_strictly

__all__ = ["BATCH_BYTES_MAX", "BODY_BYTES_MAX", "decode", "decode_object", "read"]

BATCH_BYTES_MAX: Final = 4 << 20
JSON_ONLY: Final = ("application/json",)
READ_SECONDS: Final = 10.0
Decoded = TypeVar("Decoded")


Further = Callable[[Any, Sequence[FieldError]], Sequence[FieldError]]
"""What else is wrong with a tree of JSON that has these faults."""


def decode(
    body: bytes, decoder: msgspec.json.Decoder[Decoded], further: Further | None = None
) -> Decoded:
    """The value of `body`.

    Raises:
        Problem: 400 with every broken rule, up to `ERRORS_MAX`.
    """
    try:
        return read_strictly(body, decoder)
    except BadInput as bad:
        more = further(bad.tree, bad.errors) if further and bad.tree is not None else ()
        raise invalid([*bad.errors, *more][:ERRORS_MAX], str(bad)) from bad


def decode_object(body: bytes) -> dict[str, Any]:
    """The members of `body`, whatever their values.

    Raises:
        Problem: 400 unless it is one JSON object.
    """
    try:
        value = parse(body)
    except BadInput as bad:
        raise invalid(bad.errors, str(bad)) from bad
    if not isinstance(value, dict):
        raise invalid([FieldError(field="", value="", rule="must be a JSON object")])
    return value


async def read(
    request: web.Request, bytes_max: int, content_types: Sequence[str] = JSON_ONLY
) -> bytes:
    """The body, at most `bytes_max` and at most `READ_SECONDS` long, of one of `content_types`.

    Raises:
        Problem: 413, 415 or 408.
    """
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise Problem(415, "content-encoding", "the body must not be encoded", closes=True)
    if (request.content_length or 0) > bytes_max:
        raise _too_large(bytes_max)
    if request.content.is_eof():  # all of it is here already: no time-out is needed
        body = await _read_bounded(request, bytes_max)
    else:
        try:
            async with asyncio.timeout(READ_SECONDS):
                body = await _read_bounded(request, bytes_max)
        except TimeoutError as error:
            detail = f"the body took over {READ_SECONDS:.0f} s"
            raise Problem(408, "too-slow", detail, closes=True) from error
    if body and request.content_type not in content_types:
        raise _wrong_type(request.content_type[:100], content_types)
    return body


async def _read_bounded(request: web.Request, bytes_max: int) -> bytes:
    chunks, size = [], 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > bytes_max:
            raise _too_large(bytes_max)
        chunks.append(chunk)
    return b"".join(chunks)


def _wrong_type(given: str, content_types: Sequence[str]) -> Problem:
    if len(content_types) == 1:
        return Problem(415, "content-type", f"{given} is not JSON")
    detail = f"{given} is not {' or '.join(content_types)}"
    return Problem(415, "content-type", detail, headers={"Accept-Patch": content_types[0]})


def _too_large(bytes_max: int) -> Problem:
    detail = f"the body must be at most {bytes_max} bytes"
    return Problem(413, "too-large", detail, closes=True)
