"""Monitoring: the exact cost ledger, and metrics derived from facts."""
