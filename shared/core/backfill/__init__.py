"""Promised starts: which nodes are kept for who waits longest, and from when."""
