"""How documents of the organisation change: merged, guarded, rehearsed, deleted."""
