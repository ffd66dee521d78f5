"""Pods that name Muster as their scheduler: read, followed, adopted, and told why they wait."""
