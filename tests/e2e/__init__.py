"""The whole system, real processes and servers, under load and faults."""
