"""Seeded bugs, each of which the simulation must find (ADR 99)."""
