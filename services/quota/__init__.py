"""Quota: order and permission. Which workload may be tried next, and in which flavors."""
