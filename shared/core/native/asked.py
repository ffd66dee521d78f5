"""MIG profiles by the names of their resources."""

from __future__ import annotations

from shared.core.kubernetes.requests import MIG


def profile_of(resource: str) -> str:
    """The profile 1g.10gb+me of nvidia.com/mig-1g.10gb.me: a resource's name has no plus."""
    text = resource.removeprefix(MIG)
    size, dot, attribute = text.rpartition(".")
    return f"{size}+{attribute}" if dot and "." in size else text
