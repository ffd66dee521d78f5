"""An empty fleet, and whether a request would fit it."""

from shared.core.admission.fleet_shape import FleetShape, summary_of
from shared.core.admission.static_fit.fit import fitting_flavors
from shared.core.model.value import replace


def a_fleet(*nodes, switching=False):
    fleet = FleetShape(switching=switching)
    for node in nodes:
        fleet.put(node.name, summary_of(node))
    return fleet


def ready(spec):
    """As `admit` leaves it for the fit: CPU and memory filled."""
    sets = tuple(
        replace(one, cpu_milli=one.cpu_milli or 0, memory_mib=one.memory_mib or 0)
        for one in spec.pod_sets
    )
    return replace(spec, pod_sets=sets)


def flavors(spec, *nodes):
    found, error = fitting_flavors(ready(spec), a_fleet(*nodes))
    assert error is None, error
    return set(found)


def unfit(spec, *nodes):
    _, error = fitting_flavors(ready(spec), a_fleet(*nodes))
    assert error is not None
    return error
