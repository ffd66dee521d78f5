"""What each field of a message or document means, for the schemas that others read.

There is one source: the docstring that follows a field in its struct. A field with a name that
means the same in every struct is described once, in `vocabulary`.
"""

from __future__ import annotations

from shared.events.described.schemas import described_components

__all__ = ["described_components"]
