"""Where, in which permitted flavor; the single writer of the ledger and of workload states."""
