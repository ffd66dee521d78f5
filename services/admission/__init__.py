"""Admission: is it valid, whose is it, and could it ever run? The judge of idempotency."""
