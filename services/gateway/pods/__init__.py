"""What users read of pods, and do in them, through the gateway."""
