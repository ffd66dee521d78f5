"""The pure decision core: no I/O, no clock, no randomness, no logging (docs/adr/0001)."""
