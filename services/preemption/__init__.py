"""The service preemption: who is evicted for whom; it proposes, placement decides."""
