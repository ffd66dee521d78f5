"""`muster-ops`: what operators run beside the system; imports no service."""
