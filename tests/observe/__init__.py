"""Rules and dashboards, on Prometheus and promtool as Debian has them."""
