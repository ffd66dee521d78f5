"""The shell that every service runs in: loop, unit of work, relay, lease, health."""
