"""What each field of a message or document means, for the schemas that others read.

There is one source: the docstring that follows a field in its struct. A field whose name means the
same in every struct is described once, in `vocabulary`.
"""

from __future__ import annotations

from shared.events.described.schemas import described_components

__all__ = ["described_components"]
