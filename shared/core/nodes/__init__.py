"""Nodes and GPUs that are to be left alone, used up or set otherwise.

`shunning.py`: a node on which work does not start is in quarantine; `pod_failures.py`: what
made a pod fail; `backoff.py`: the pause before the next attempt; `idleness.py`: GPUs that are held
and not used; `mig_switch.py`: which idle GPU changes its MIG mode.
"""
