"""Protocols through which the shell is reached; every adapter passes tests/contract."""
