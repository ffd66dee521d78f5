"""Faults of a running system, each with the alerts that it must raise and that end with it.

Begin with `faults`: what a fault is. Those of devices, of work and of Muster itself are registered
by their modules; `shortened` says which times of the rules are shorter than in operation.
"""

from tests.observe.chaos import devices, muster, work
from tests.observe.chaos.faults import FAULTS, Scene, run

__all__ = ["FAULTS", "Scene", "devices", "muster", "run", "work"]
