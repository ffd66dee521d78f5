"""The simulated cluster: a process of its own with an HTTP API and a durable store."""
