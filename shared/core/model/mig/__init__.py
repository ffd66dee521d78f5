"""MIG as the products define it: profiles, legal starts, and what each position leaves open."""
