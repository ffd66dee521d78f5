"""What goes over the wire: the JSON of a webhook, signed, and a message for Slack.

Nothing that users write becomes markup: in Slack every text is of type plain_text and of one line,
and the fallback text has `&`, `<` and `>` escaped, without which there is no mention and no link.
Source: Standard Webhooks 1.0; Slack, "Formatting text for app surfaces".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from standardwebhooks import Webhook

from services.notifications.notices import Notice
from shared.core.notifications.events import Severity

LINE_CHARACTERS_MAX: Final = 1_500
LINES_MAX: Final = 40
"""Slack takes 50 blocks of 3,000 characters."""
_MARKS: Final = {Severity.INFO: "info", Severity.WARNING: "WARNING", Severity.CRITICAL: "CRITICAL"}


def webhook_body(notices: Sequence[Notice], digest: bool) -> bytes:  # noqa: FBT001  # of the document
    """One event, or a digest of several."""
    if not digest:
        return msgspec.json.encode(_event(notices[0]))
    data = {"events": [_event(one) for one in notices]}
    return msgspec.json.encode(
        {"type": "muster.digest", "timestamp": _time(notices[-1].at_ms), "data": data}
    )


def webhook_headers(
    identifier: str, body: bytes, keys: Sequence[str], now_ms: int
) -> dict[str, str]:
    """Headers of Standard Webhooks: a signature by each key, so that keys can be changed.

    Raises:
        ValueError: a key is none.
    """
    at = datetime.fromtimestamp(now_ms // 1000, UTC)
    signatures = [Webhook(key).sign(identifier, at, body.decode()) for key in keys]
    return {
        "Content-Type": "application/json",
        "webhook-id": identifier,
        "webhook-timestamp": str(now_ms // 1000),
        "webhook-signature": " ".join(signatures),
    }


def slack_body(notices: Sequence[Notice]) -> bytes:
    """A message with one block for each notice."""
    lines = [_line(one) for one in notices[:LINES_MAX]]
    if len(notices) > LINES_MAX:
        lines.append(f"and {len(notices) - LINES_MAX} more")
    blocks = [
        {"type": "section", "text": {"type": "plain_text", "text": one, "emoji": False}}
        for one in lines
    ]
    text = escaped(lines[0] if len(lines) == 1 else f"{len(notices)} events of Muster")
    return msgspec.json.encode(
        {"text": text, "mrkdwn": False, "link_names": False, "parse": "none", "blocks": blocks}
    )


def escaped(text: str) -> str:
    """As Slack wants it; a zero-width space keeps "@here" from being one."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("@", "@\u200b")


def _line(notice: Notice) -> str:
    message = str(notice.fields.get("message", ""))
    text = f"[{_MARKS[notice.severity]}] {notice.text}"
    text += f": {message}" if message else ""
    text = one_line(text)
    return f"{text} -> {one_line(notice.command)}" if notice.command else text


def one_line(text: str) -> str:
    """Without line ends, controls or turns of direction, and not too long."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    return plain[: LINE_CHARACTERS_MAX - 1] + "…" if len(plain) > LINE_CHARACTERS_MAX else plain


def _event(notice: Notice) -> dict[str, Any]:
    data = {
        "id": notice.id,
        "severity": notice.severity.value,
        "team": notice.team,
        "text": notice.text,
        "command": notice.command,
        **notice.fields,
    }
    return {
        "type": f"muster.{notice.kind.value}",
        "timestamp": _time(notice.at_ms),
        "data": data,
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
