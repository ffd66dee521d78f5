"""Every code that a field `reason` holds: one closed set.

Codes are for programs; `message` says the same with its numbers. What the kubelet or the API
server says of a pod is free text, and has a field of its own, `pod_reason` (recorded_reasons.py).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Code of the reason, for programs."""

    NONE = ""
    """Nothing is to be said."""

    # ── why a workload waits ──
    WAITING_FOR_QUOTA = "WaitingForQuota"
    """Too little quota is left to it, up the tree."""
    QUOTA_KEPT = "QuotaKept"
    """What is left of the quota is kept for one that waits longer."""
    RECLAIM = "WaitingForReclaim"
    """Others borrow what its queue owns: told by readers of the current quota tree."""
    EXCEEDS_QUOTA = "ExceedsMaxQuota"
    """It asks for more than its queue may ever have."""
    BUDGET_SPENT = "BudgetSpent"
    """The budget of its team is spent."""
    QUEUE_HELD = "QueueHeld"
    """Nothing of its queue is started."""
    BEHIND_HEAD = "BehindStrictHead"
    """Its queue is strict, and the one before it cannot start."""
    NO_MATCHING_NODE = "NoMatchingFlavor"
    """No node is as it asks for."""
    NO_CAPACITY = "InsufficientCapacity"
    """Nodes match, and none has enough room."""
    GANG_SHORT = "GangIncomplete"
    """There is room for some of its pods, not for all."""
    TOPOLOGY = "TopologyPlacementFailed"
    """There is room for all pods, not near enough to each other."""
    NO_MIG_POSITION = "NoLegalMigPosition"
    """No GPU has a free position for the MIG slice."""
    NODES_UNHEALTHY = "NodesUnhealthy"
    """The nodes that match take no work."""

    # ── why it is stopped, was stopped or ended ──
    HELD = "held"
    """Its owner holds it."""
    CANCELLED = "cancelled"
    """Its owner cancelled it."""
    TIME_TO_LIVE = "time-to-live"
    """Its time to live, counted from the submission, is over."""
    DURATION = "duration"
    """It ran as long as it may."""
    PREEMPTED = "preempted"
    """Another workload gets its room."""
    MOVED = "moved"
    """It goes on elsewhere, so that another workload finds room."""
    IDLE = "idle"
    """Its GPUs are not used."""
    OPERATOR = "operator"
    """An operator evicted it; `note` holds the operator's words."""
    DRAINED = "drained"
    """Its node or its queue is drained."""
    SPOT_NOTICE = "spot-notice"
    """Its node is about to be taken away."""
    DEVICE_UNHEALTHY = "device-unhealthy"
    """A GPU that it holds is taken out of service."""
    NODE_LOST = "node-lost"
    """Its node is not heard of, or is gone."""
    PODS_LOST = "pods-lost"
    """Its pods were taken away, not by Muster; `pod_reason` says how."""
    KUBELET_REFUSED = "kubelet-refused"
    """A kubelet would not take a pod; `pod_reason` says why."""
    BIND_REFUSED = "bind-refused"
    """The cluster would not take a pod; `pod_reason` says why. It is tried again."""
    BIND_TIMEOUT = "bind-timeout"
    """It did not run in time."""
    FAILED = "failed"
    """A pod failed; `pod_reason` says how."""
    NEVER_STARTS = "never-starts"
    """A container can never start, however long it waits; `pod_reason` says why."""
    POD_REFUSED = "pod-refused"
    """The cluster would refuse a pod each time; `pod_reason` says why. It is not tried again."""

    # ── why a gang that runs has another size ──
    GROWN = "grown"
    """There is room for more of its pods."""
    RESIZED = "resized"
    """Its owner asked for this size."""
    RESIZE_REFUSED = "resize-refused"
    """The cluster would not take a new pod; `pod_reason` says why."""

    # ── what became of an eviction plan, or of a release of idle work ──
    VICTIM_CHANGED = "victim-changed"
    """A victim is not as the plan saw it."""
    PREEMPTOR_CHANGED = "preemptor-changed"
    """The preemptor is not as the plan saw it."""
    NO_LONGER_FITS = "no-longer-fits"
    """There is no room or quota for it, even with the victims gone."""
    TIMED_OUT = "timed-out"
    """The victims did not leave in time."""
    PREEMPTOR_LEFT = "preemptor-left"
    """The preemptor does not wait for that room any more."""
    WORKLOAD_CHANGED = "workload-changed"
    """The idle workload is not as it was seen."""

    # ── by which rule room is reserved (core/preemption/eligibility/plan.py) ──
    BY_ROOM = "room"
    """No workload goes: it may use nodes that are kept for brief or wide work."""
    BY_MOVE = "move"
    """No workload is evicted: some go on elsewhere."""
    BY_PRIORITY = "priority"
    """Work of its own queue with a lower priority goes."""
    BY_RECLAIM = "reclaim"
    """Work of a queue above its nominal quota goes."""
    BY_FAIR_SHARE = "fair-share"
    """Work of a queue with a larger share goes."""

    # ── why no workload is evicted for it (core/preemption/eligibility/plan.py) ──
    FITS_NOW = "FitsNow"
    """No workload has to go."""
    DELAYED = "PreemptionDelayed"
    """It has not waited long enough."""
    NOBODY = "NobodyToEvict"
    """No workload holds what it needs."""
    VICTIMS_PROTECTED = "VictimsProtected"
    """The holders of what it needs are of a protected class."""
    VICTIMS_NOT_EVICTABLE = "VictimsNotEvictable"
    """The holders of what it needs are not preemptible."""
    NO_LOWER_PRIORITY = "NoLowerPriority"
    """No workload of its queue has a lower priority."""
    WITHIN_NOMINAL = "WithinNominalQuota"
    """The holders of what it needs are within what their queue owns."""
    COHORT_WITHIN_NOMINAL = "CohortWithinNominalQuota"
    """The holders of what it needs are within what their cohort owns."""
    WOULD_FALL_BELOW_NOMINAL = "WouldFallBelowNominalQuota"
    """The queue of the holders would have less than it owns."""
    NO_LARGER_SHARE = "NoLargerShare"
    """No other queue has a larger share."""
    POLICY_FORBIDS = "PolicyForbids"
    """The policy of a queue forbids it."""
    WITHIN_MIN_RUNTIME = "WithinMinimumRuntime"
    """The holders of what it needs have not run long enough."""
    COOL_DOWN = "VictimsCoolDown"
    """The holders of what it needs were evicted lately."""
    LOSS_BUDGET_USED_UP = "LossBudgetUsedUp"
    """Its queue has cost others as much as it may."""
    VICTIMS_PROMISED = "VictimsPromised"
    """The holders of what it needs were promised to stay."""
    NOT_EVEN_AFTER_EVICTIONS = "NotEvenAfterEvictions"
    """There would be no room for it even then."""
    QUOTA_NOT_FREED = "QuotaNotFreed"
    """There would be no quota for it even then."""

    # ── why a warning of idle work is over ──
    USED = "used"
    """Its GPUs are used again."""
    UNSEEN = "unseen"
    """The use of its GPUs is not reported."""
    EXEMPT = "exempt"
    """No policy speaks of its idleness any more."""

    # ── why nothing is started on a node, or something again ──
    CORDONED = "cordoned"
    """An operator keeps new work off the node."""
    FENCED = "fenced"
    """An operator says that the node's machine is off."""
    UNCORDONED = "uncordoned"
    """An operator gave the node back."""
    EXPIRED = "expired"
    """The time for which the node was shunned is over."""
    STARTED = "started"
    """Work has started on the node."""
    HEARD = "heard"
    """The agent of the node is heard again."""
    REMOVED = "removed"
    """The node has left the cluster."""

    # ── what the gateway tells ──
    REJECTED = "Rejected"
    """It breaks rules; `errors` of the event's detail names each."""
    CONFLICTED = "Conflicted"
    """Its idempotency key came with another submission."""
    NOT_IDLE = "not-idle"
    """Its GPUs count as used again."""
    BUDGET = "budget"
    """A team has spent a part of its budget."""
    RECEIVED = "Received"
    """It is durable and waits for admission."""
    PENDING = "Pending"
    """It is queued, and was told no reason yet."""
    PLACED = "Placed"
    """Its pods are being made."""
    BOUND = "Bound"
    """Its pods start."""
    RUNNING = "Running"
    """Its pods run."""
    EVICTING = "Evicting"
    """Its pods are being stopped."""
    SUCCEEDED = "Succeeded"
    """All of its pods ended well."""
    UNKNOWN = "unknown"
    """A code of another version; `pod_reason` holds it as it came."""


WAITS: Final = frozenset(
    (
        Reason.WAITING_FOR_QUOTA,
        Reason.QUOTA_KEPT,
        Reason.RECLAIM,
        Reason.EXCEEDS_QUOTA,
        Reason.BUDGET_SPENT,
        Reason.QUEUE_HELD,
        Reason.BEHIND_HEAD,
        Reason.NO_MATCHING_NODE,
        Reason.NO_CAPACITY,
        Reason.GANG_SHORT,
        Reason.TOPOLOGY,
        Reason.NO_MIG_POSITION,
        Reason.NODES_UNHEALTHY,
    )
)
"""Why a nominated or queued workload waits: what a `Refusal` says."""
BY_CAPACITY: Final = frozenset(
    (Reason.NO_CAPACITY, Reason.GANG_SHORT, Reason.TOPOLOGY, Reason.NO_MIG_POSITION)
)
"""Reasons to wait of which more nodes may be the end; quota is none of them."""
