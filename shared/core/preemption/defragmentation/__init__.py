"""The fewest moves that let a blocked gang start."""
