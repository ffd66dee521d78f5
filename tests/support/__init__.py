"""Builders and processes that several tests use."""
