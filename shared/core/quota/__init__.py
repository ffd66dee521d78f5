"""What each queue may take: the tree, borrowing and lending, use over time, debts, budgets."""
