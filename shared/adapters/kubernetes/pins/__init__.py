"""Claims of devices: which devices there are, who holds them, and how a pod gets its own."""
