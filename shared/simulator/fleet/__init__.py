"""The simulated fleet: thousands of described nodes that report as node agents do."""
