"""Which queues are looked at when the batch settles: those that a change could help.

A queue is looked at again only when something that could help it has changed, once for each
batch, however many facts say so.
"""

from __future__ import annotations

from shared.core.queueing.nomination.pending_queue import PendingQueue
from shared.core.queueing.nomination.permission import Permissions
from shared.core.quota.tree import QuotaTree


class ChangedQueues:
    """The lines of one cell, and which of them are due."""

    def __init__(self, tree: QuotaTree, permissions: Permissions) -> None:
        self.lines: dict[str, PendingQueue] = {}
        self._tree = tree
        self._permissions = permissions
        self._due: dict[str, PendingQueue] = {}
        self._stirred: set[str] = set()
        """Roots of trees in which a line is due: later arrivals do not go before those."""
        self._changed_trees: set[str] = set()
        """Roots below which a document has changed."""

    def __bool__(self) -> bool:
        """Whether anything is to be looked at."""
        return bool(self._due or self._changed_trees)

    def line(self, queue: str) -> PendingQueue:
        """The line of a queue, whether or not it has quota yet."""
        found = self.lines.get(queue)
        if found is None:
            found = self.lines[queue] = PendingQueue(self._tree.node(queue))
        return found

    def look_at(self, line: PendingQueue) -> None:
        """Look at a line when the batch settles."""
        self._due[line.name] = line
        self._stirred.add(line.node.root.name)

    def reconsider(self, line: PendingQueue) -> None:
        """The rules of a line changed: check what is open, look again, tell the reasons anew."""
        line.suspects = list(line.open.values())
        line.retell = True
        self.look_at(line)

    def wake(self, queue: str) -> None:
        """Quota of `queue` was freed: look at it, and at queues that a common ancestor blocked."""
        line = self.line(queue)
        if line.classes:
            self.look_at(line)
        for kept in self._permissions.kept_from_above(line.node.root.name).values():
            self.look_at(kept)

    def reopen(self, lines: dict[str, PendingQueue]) -> None:
        """The window has room again for those that it kept out."""
        self._due.update(lines)

    def tree_changed(self, *roots: str) -> None:
        """A document below these roots changed: all of their queues are reconsidered."""
        self._changed_trees.update(roots)

    def is_due(self, line: PendingQueue) -> bool:
        """Whether it is looked at anyway."""
        return line.name in self._due

    def is_stirred(self, line: PendingQueue) -> bool:
        """Whether what came in before may already help a workload in the tree."""
        return bool(self._stirred) and line.node.root.name in self._stirred

    def take(self) -> list[PendingQueue]:
        """The lines to look at now; none of them is due any more."""
        self._look_at_changed_trees()
        lines, self._due, self._stirred = list(self._due.values()), {}, set()
        return lines

    def forget_changed_trees(self) -> None:
        """What was restored was decided under the documents of now."""
        self._changed_trees.clear()

    def _look_at_changed_trees(self) -> None:
        if self._changed_trees:
            for line in self.lines.values():
                if line.node.root.name in self._changed_trees:
                    self.reconsider(line)
            self._changed_trees.clear()
