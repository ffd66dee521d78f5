"""Dead letters: what could never be processed, why, and sending it once more after a mend."""
