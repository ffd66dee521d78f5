"""The quota tree: what each queue and cohort may use in each flavor, and what it does use.

A queue's ceiling in a flavor is its nominal quota; a cohort's is the sum of what its subtree
owns (its own pool beside its members, as in Kueue's hierarchical cohorts, KEP-79). Charges go
from the queue up to the root, so `available` holds at every level. Borrowing and lending limits
are kept and told, and come into force with the queue-policy issue; until then nothing lends.

`used` is what the ledger charged; `promised` is what nominations without an answer may take.
Changes are in place; whoever changes the tree also decides whom to look at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.core.amounts import Amount
from shared.core.queue_policy import DEFAULT_POLICY, QueuePolicy, problem_of_policy
from shared.core.units import UNLIMITED, saturating_add

NOTHING: Final[Amount] = (0, 0, 0)
EVERYTHING: Final[Amount] = (UNLIMITED, UNLIMITED, UNLIMITED)
DEPTH_MAX: Final = 32
FLAVORS_MAX: Final = 256
WEIGHT_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorLimits:
    """What a node owns in one flavor; a limit of None is no limit."""

    nominal: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDocument:
    """A queue or cohort as applied; `flavors` in the order in which they are tried."""

    name: str
    kind: str
    """queue | cohort."""
    version: int
    parent: str = ""
    team: str = ""
    flavors: Mapping[str, FlavorLimits] = field(default_factory=dict)
    strict: bool = False
    held: bool = False
    draining: bool = False
    weight: int = 1
    policy: QueuePolicy = DEFAULT_POLICY


class QuotaNode:
    """One node of the tree with its sums. Amounts of a flavor are lists [gpu, cpu, memory]."""

    __slots__ = ("ceilings", "children", "document", "name", "parent", "promised", "used")

    def __init__(self, name: str) -> None:
        self.name = name
        self.document: QuotaDocument | None = None
        self.parent: QuotaNode | None = None
        self.children: dict[str, QuotaNode] = {}
        self.ceilings: dict[str, Amount] = {}
        self.used: dict[str, list[int]] = {}
        self.promised: dict[str, list[int]] = {}

    def path(self) -> Iterator[QuotaNode]:
        """This node and its ancestors, to the root."""
        node: QuotaNode | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        """The top of the tree in which this node hangs."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def taken(self, flavor: str) -> Amount:
        """Used and promised in `flavor`."""
        used = self.used.get(flavor, NOTHING)
        promised = self.promised.get(flavor, NOTHING)
        return used[0] + promised[0], used[1] + promised[1], used[2] + promised[2]

    def available(self, flavor: str) -> Amount:
        """What may still be taken here; negative when over. A flavor without quota has none."""
        ceiling = self.ceilings.get(flavor, NOTHING)
        taken = self.taken(flavor)
        return (
            _left(ceiling[0], taken[0]),
            _left(ceiling[1], taken[1]),
            _left(ceiling[2], taken[2]),
        )

    def allows(self, flavor: str, request: Amount) -> bool:
        """Whether `request` fits what is available; units not asked for do not count."""
        left = self.available(flavor)
        return (
            (not request[0] or request[0] <= left[0])
            and (not request[1] or request[1] <= left[1])
            and (not request[2] or request[2] <= left[2])
        )


def _left(ceiling: int, taken: int) -> int:
    return UNLIMITED if ceiling >= UNLIMITED else ceiling - taken


class QuotaTree:
    """All queues and cohorts of one cell."""

    def __init__(self) -> None:
        self.nodes: dict[str, QuotaNode] = {}

    def node(self, name: str) -> QuotaNode:
        """The node of this name; one without quota if none was applied yet. O(1)."""
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = QuotaNode(name)
        return found

    def apply(self, document: QuotaDocument) -> tuple[list[QuotaNode], str]:
        """Put a document into force: the nodes whose limits changed, or why it is refused.

        An older or equal version changes nothing. O(depth x members), only on this event.
        """
        node = self.nodes.get(document.name)
        if node is not None and node.document is not None:
            if document.version <= node.document.version:
                return [], ""
            if node.document.kind != document.kind:
                return [], f"{document.name}: is a {node.document.kind} already"
        problem = problem_of(document) or self._parent_problem(document)
        if problem:
            return [], problem
        node = self.node(document.name)
        node.document = document
        touched = self._move(node, document.parent)
        return self._refresh([node, *touched]), ""

    def _parent_problem(self, document: QuotaDocument) -> str:
        above, depth = document.parent, 1
        while above:
            if above == document.name:
                return f"{document.name}: parent {document.parent} makes a cycle"
            found = self.nodes.get(above)
            if found is None:
                break
            if found.document is not None and found.document.kind == "queue":
                return f"{document.name}: parent {above} is a queue"
            above = found.parent.name if found.parent is not None else ""
            depth += 1
        if depth + self._height(document.name) > DEPTH_MAX:
            return f"{document.name}: the tree would be deeper than {DEPTH_MAX}"
        return ""

    def _height(self, name: str) -> int:
        found = self.nodes.get(name)
        if found is None:
            return 0
        return 1 + max((self._height(child) for child in found.children), default=0)

    def _move(self, node: QuotaNode, parent_name: str) -> list[QuotaNode]:
        """Hang `node` below its parent, its sums with it; the parents that it left and joined."""
        before = node.parent
        if (before.name if before is not None else "") == parent_name:
            return []
        touched = []
        if before is not None:
            _add_sums(before, node, -1)
            del before.children[node.name]
            node.parent = None
            touched.append(before)
        if parent_name:
            parent = self.node(parent_name)
            node.parent = parent
            parent.children[node.name] = node
            _add_sums(parent, node, 1)
            touched.append(parent)
        return touched

    def _refresh(self, starts: Iterable[QuotaNode]) -> list[QuotaNode]:
        """Compute ceilings from `starts` up; the nodes in force anew, each once."""
        changed: dict[str, QuotaNode] = {}
        for start in starts:
            for node in start.path():
                ceilings = _ceilings(node)
                if node is start or ceilings != node.ceilings:
                    changed[node.name] = node
                node.ceilings = ceilings
        return [node for node in changed.values() if node.document is not None]

    def charge(self, queue: str, flavor: str, amount: Amount, sign: int = 1) -> None:
        """Add (or with `sign` -1 take off) use, at the queue and every ancestor."""
        for node in self.node(queue).path():
            _add(node.used, flavor, amount, sign)

    def promise(self, queue: str, flavor: str, amount: Amount, sign: int = 1) -> None:
        """Add or take off what an unanswered nomination may take."""
        for node in self.node(queue).path():
            _add(node.promised, flavor, amount, sign)

    def blocked_by(self, queue: QuotaNode, flavor: str, request: Amount) -> QuotaNode | None:
        """The first node from the queue up that does not allow `request`; None if all do."""
        for node in queue.path():
            if not node.allows(flavor, request):
                return node
        return None


def _add(sums: dict[str, list[int]], flavor: str, amount: Amount, sign: int) -> None:
    total = sums.get(flavor)
    if total is None:
        total = sums[flavor] = [0, 0, 0]
    total[0] += sign * amount[0]
    total[1] += sign * amount[1]
    total[2] += sign * amount[2]


def _add_sums(above: QuotaNode, node: QuotaNode, sign: int) -> None:
    for ancestor in above.path():
        for flavor, used in node.used.items():
            _add(ancestor.used, flavor, (used[0], used[1], used[2]), sign)
        for flavor, promised in node.promised.items():
            _add(ancestor.promised, flavor, (promised[0], promised[1], promised[2]), sign)


def _ceilings(node: QuotaNode) -> dict[str, Amount]:
    own = node.document.flavors if node.document is not None else {}
    ceilings = {flavor: limits.nominal for flavor, limits in own.items()}
    for child in node.children.values():
        for flavor, ceiling in child.ceilings.items():
            mine = ceilings.get(flavor, NOTHING)
            ceilings[flavor] = (
                saturating_add(mine[0], ceiling[0]),
                saturating_add(mine[1], ceiling[1]),
                saturating_add(mine[2], ceiling[2]),
            )
    return ceilings


def problem_of(document: QuotaDocument) -> str:
    """What is wrong with a document by itself; "" when nothing is."""
    name = document.name
    if document.parent == name:
        return f"{name}: is its own parent"
    if len(document.flavors) > FLAVORS_MAX:
        return f"{name}: more than {FLAVORS_MAX} flavors"
    if not 0 <= document.weight <= WEIGHT_MAX:
        return f"{name}: weight {document.weight} is not 0 to {WEIGHT_MAX}"
    policy = problem_of_policy(document.policy)
    if policy:
        return f"{name}: policy.{policy}"
    for flavor, limits in document.flavors.items():
        for kind in ("nominal", "borrowing_limit", "lending_limit"):
            amount: Amount | None = getattr(limits, kind)
            if amount is not None and not all(0 <= unit <= UNLIMITED for unit in amount):
                return f"{name}: {kind} of {flavor} is negative or larger than unlimited"
    return ""
