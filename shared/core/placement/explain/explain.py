"""Why a workload was not placed: the first of these that is true, with counts and a way out.

1. quota is all that is missing                         WaitingForQuota          no_quota.py
2. no node passes the filters (counts for each filter)  NoMatchingFlavor         no_node.py
3. all that pass are cordoned, not ready or unhealthy   NodesUnhealthy           no_node.py
4. not even one pod finds room (nearest miss)           InsufficientCapacity,    no_room.py
                                                        NoLegalMigPosition
5. some pods find room, not all of them                 GangIncomplete           no_gang.py
6. all find room, but not close enough together, or not TopologyPlacementFailed  nearest.py
   in whole slices
7. each pod set finds room, but not beside the others:  GangIncomplete, or       not_together.py
   in one flavor; or, where that is, in one domain      TopologyPlacementFailed

From 4 on, nodes that are shunned or out are named beside it (absent.py).

Called when `place` found nothing, on the same state; changes nothing. The counts come from the
indexes of the cluster (survey.py, free.py).
"""

from __future__ import annotations

from shared.core.model.decision import Refusal
from shared.core.model.demand import gang_of
from shared.core.model.request import PlacementRequest
from shared.core.placement.explain.absent import with_absent
from shared.core.placement.explain.no_gang import no_gang
from shared.core.placement.explain.no_node import no_node
from shared.core.placement.explain.no_quota import no_quota
from shared.core.placement.explain.no_room import no_room
from shared.core.placement.explain.survey import survey
from shared.core.placement.gang import smallest
from shared.core.scoring import Cluster


def explain(cluster: Cluster, request: PlacementRequest) -> Refusal:
    """The dominant reason why `request` cannot be placed now. About 0.1 ms, any fleet.

    An elastic gang is refused because of the least of it, and that is what is explained.
    """
    gang = smallest(gang_of(request.workload, request.pins))
    refusal = no_quota(cluster, request, gang)
    if refusal is not None:
        return refusal
    surveys = [survey(cluster, gang, demand, request.flavors) for demand in gang.demands]
    for found, demand in zip(surveys, gang.demands, strict=True):
        refusal = no_node(found, gang, demand)
        if refusal is not None:
            return refusal
        refusal = no_room(cluster, found, gang, demand)
        if refusal is not None:
            return with_absent(refusal, found)
    return with_absent(no_gang(cluster, gang, surveys, request.flavors), surveys[0])
