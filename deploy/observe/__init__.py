"""Prometheus, its rules and Grafana's dashboards beside a running Muster (docs/dashboards.md)."""
