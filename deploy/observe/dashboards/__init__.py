"""The dashboards of Muster for Grafana: `model.py` has their parts, `grafana.py` their form."""
