"""Answers are sent gzipped to clients that accept it: a page of a thousand workloads is a tenth.

Left as they are: small ones, streams, secrets that are shown once (the length of what was
compressed tells of its content), and what has a strong entity tag, which names these very bytes.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

BYTES_MIN: Final = 1_024


def compress(request: web.Request, response: web.StreamResponse) -> None:
    """Have `response` sent gzipped where that helps."""
    if not isinstance(response, web.Response) or not response.body:
        return  # a stream sends each event as it happens
    response.headers.add("Vary", "Accept-Encoding")
    if _may(response) and _accepts_gzip(request.headers.get("Accept-Encoding", "")):
        response.enable_compression(web.ContentCoding.gzip)


def _may(response: web.Response) -> bool:
    tag = response.headers.get("ETag", "W/")
    secret = response.headers.get("Cache-Control", "") == "no-store"
    size = len(response.body) if isinstance(response.body, bytes) else 0
    return size >= BYTES_MIN and tag.startswith("W/") and not secret


def _accepts_gzip(header: str) -> bool:
    """Whether `gzip`, or else `*`, is named with a weight that is not 0."""
    weights: dict[str, bool] = {}
    for part in header.lower().split(","):
        coding, _, rest = part.partition(";")
        weights[coding.strip()] = not _is_zero(rest)
    return weights.get("gzip", weights.get("*", False))


def _is_zero(parameters: str) -> bool:
    name, _, weight = parameters.partition("=")
    return name.strip() == "q" and weight.strip() in ("0", "0.0", "0.00", "0.000")
