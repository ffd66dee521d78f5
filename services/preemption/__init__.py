"""The service preemption: which work is evicted for other work; it proposes, placement decides."""
