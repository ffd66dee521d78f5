"""Virtual time over the same core; the simulated cluster and fleet as processes."""
