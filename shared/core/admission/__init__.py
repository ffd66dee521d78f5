"""Is a submission valid, whose is it, and could it ever run? `admit` answers."""
