"""A Kubernetes control plane for tests: a real API server, with nodes simulated by KWOK."""
