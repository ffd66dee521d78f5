"""Measurements that anyone can run, each with its options and JSON."""
