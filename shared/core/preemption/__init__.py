"""Whom to evict so that a workload that waits can start whole; `choose` is the first to read."""
