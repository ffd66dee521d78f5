"""Who may be tried next, under quota: lines, turns, windows."""
