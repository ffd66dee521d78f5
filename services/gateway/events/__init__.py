"""Recorded events, page by page: on from a place, or the newest."""

from services.gateway.events.pages import Row, Which, page_of, read_after, view_of

__all__ = ["Row", "Which", "page_of", "read_after", "view_of"]
