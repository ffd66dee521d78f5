"""`muster nodes --summary`, and MIG instances beside nodes and devices."""
