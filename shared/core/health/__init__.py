"""Health of devices: what tells of it, what it means, and the ladder that a device goes down."""
