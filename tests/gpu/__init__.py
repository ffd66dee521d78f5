"""Checks on a real board: run by hand where one is at hand (CONTRIBUTING.md), never by CI."""
