"""Entity tags: a client that has an answer already is told that nothing has changed (304).

The tag of a document is its version, strong, as handlers set it. What has live numbers in it gets
a weak one, made of the answer itself, behind the version of the document if there is one: so the
tag that comes with a queue and its use still names the version that a PUT replaces.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from aiohttp import web

_TAG: Final = re.compile(r'(W/)?"([^"]*)"')
_DIGEST_BYTES: Final = 9
_KEPT: Final = ("ETag", "Cache-Control", "Vary")
"""What a 304 repeats of the answer that it stands for."""


def live_tag(version: int) -> dict[str, str]:
    """The tag of a document that is told with live numbers; `revalidated` completes it."""
    return {"ETag": f'W/"{version}"'}


def versions_named(header: str) -> list[str]:
    """The versions that an `If-Match` names, in quotes, whatever live numbers they came with."""
    return [f'"{text.partition(".")[0]}"' for _, text in _TAG.findall(header)]


def revalidated(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """The answer with its tag, or 304 where the caller has what it says; others as they are."""
    is_read = request.method in ("GET", "HEAD") and response.status == web.HTTPOk.status_code
    if not is_read or not isinstance(response, web.Response):
        return response
    if response.content_type != "application/json":
        return response
    tag = response.headers.get("ETag", "")
    if not tag or tag.startswith("W/"):
        tag = _weak(tag, response)
        response.headers["ETag"] = tag
    response.headers.setdefault("Cache-Control", "private, no-cache")
    if not _has(request.headers.get("If-None-Match", ""), tag):
        return response
    kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
    return web.Response(status=304, headers=kept)


def _weak(tag: str, response: web.Response) -> str:
    body = response.body
    assert isinstance(body, bytes)
    digest = blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()
    version = "".join(f"{text}." for _, text in _TAG.findall(tag))
    return f'W/"{version}{digest}"'


def _has(header: str, tag: str) -> bool:
    """Whether `If-None-Match` names the tag: by weak comparison, as RFC 9110 says."""
    if header.strip() == "*":
        return True
    return tag.removeprefix("W/") in [f'"{text}"' for _, text in _TAG.findall(header)]
