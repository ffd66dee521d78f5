"""Placement policies of others, written from their papers and documents, on plain arrays."""
