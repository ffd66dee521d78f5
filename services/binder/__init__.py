"""binder: makes the cluster match the ledger; decides nothing."""
