"""Secrets by name, from files that only the service reads; no topic and no table has them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SECRET_BYTES_MAX: Final = 16_384


class SecretFiles:
    """A folder with a file for each; read at each attempt: a changed one counts at once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    async def lines(self, name: str) -> Sequence[str]:
        """The lines of a secret, without empty ones.

        Raises:
            LookupError: there is no such secret, or no folder.
        """
        if not self._folder:
            raise LookupError("MUSTER_NOTIFICATION_SECRETS names no folder")
        return await asyncio.to_thread(self._read, name)

    def _read(self, name: str) -> Sequence[str]:
        try:
            text = (Path(self._folder) / name).read_text()[:SECRET_BYTES_MAX]
        except (OSError, UnicodeDecodeError):
            raise LookupError(f"secret {name} cannot be read") from None
        found = [one.strip() for one in text.splitlines() if one.strip()]
        if not found:
            raise LookupError(f"secret {name} is empty")
        return found
