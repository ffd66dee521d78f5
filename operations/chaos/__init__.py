"""`muster-ops chaos`: faults of devices and nodes, on demand.

`faults` has the words and what each asks of a simulated machine; `places` decides where a fault
may be made; `doors` carries it out. `scenario` plans many faults from a document and a seed.
`friday` picks a node in the hours of `hours` and `cost` counts what its end cost. Begin with
`commands`.
"""

from operations.chaos.commands import app

__all__ = ["app"]
