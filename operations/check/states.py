"""The checker's own copy of the table of states; a test compares it with the lifecycle."""

from __future__ import annotations

from typing import Final

TERMINAL: Final = frozenset({"rejected", "succeeded", "failed", "cancelled"})
HOLDING: Final = frozenset({"placed", "bound", "running", "evicting", "cancelling"})
ALLOWED: Final = frozenset(
    {
        ("received", "queued"),
        ("received", "rejected"),
        ("queued", "queued"),
        ("queued", "held"),
        ("queued", "placed"),
        ("queued", "cancelled"),
        ("held", "held"),
        ("held", "queued"),
        ("held", "cancelled"),
        ("placed", "placed"),
        ("placed", "bound"),
        ("placed", "running"),
        ("placed", "evicting"),
        ("placed", "cancelling"),
        ("placed", "succeeded"),
        ("placed", "failed"),
        ("bound", "bound"),
        ("bound", "running"),
        ("bound", "evicting"),
        ("bound", "cancelling"),
        ("bound", "succeeded"),
        ("bound", "failed"),
        ("running", "running"),
        ("running", "succeeded"),
        ("running", "failed"),
        ("running", "evicting"),
        ("running", "cancelling"),
        ("evicting", "evicting"),
        ("evicting", "queued"),
        ("evicting", "held"),
        ("evicting", "cancelling"),
        ("evicting", "failed"),
        ("evicting", "succeeded"),
        ("cancelling", "cancelled"),
        ("cancelling", "succeeded"),
    }
)
STATES: Final = frozenset(state for pair in ALLOWED for state in pair)
