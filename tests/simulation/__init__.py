"""The real runtime on the fakes in one process, in virtual time, with faults by seed (ADR 99)."""
