"""Pods that name Muster as their scheduler become workloads: `handler.py` is the first to read."""
