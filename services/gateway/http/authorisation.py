"""Permissions: ONE function over (subject, action, team of the object), deny by default.

Roles grow: a viewer reads the own team, a member submits and controls, an admin manages the
team's keys, an operator does everything for every team. An object of another team is hidden, as
if it did not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a key may do at most, from the weakest to the strongest."""

    VIEWER = "viewer"
    MEMBER = "member"
    ADMIN = "admin"
    OPERATOR = "operator"


class Action(StrEnum):
    """What a route does; every route names exactly one."""

    READ_WORKLOAD = "workload.read"
    SUBMIT_WORKLOAD = "workload.submit"
    CONTROL_WORKLOAD = "workload.control"
    EXEC_WORKLOAD = "workload.exec"
    EVICT_WORKLOAD = "workload.evict"
    READ_FLEET = "fleet.read"
    CONTROL_FLEET = "fleet.control"
    READ_CATALOGUE = "catalogue.read"
    READ_TEAM = "team.read"
    APPLY_ORGANISATION = "organisation.apply"
    MANAGE_KEYS = "keys.manage"
    READ_METRICS = "metrics.read"


class AccessVerdict(StrEnum):
    """The answer: `hidden` is told to the caller as "not found"."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An authenticated caller; `name` is the public part of the key, for the audit."""

    name: str
    team: str
    role: Role
    label: str = ""
    """The label given to the key when it was made."""
    user: str = ""
    """The user of the cluster, of a caller without a key (docs/adr/0108)."""

    @property
    def described(self) -> str:
        """Such as `key nightly-ci (team admin)`: how the origin of a command is told."""
        key = f"key {self.label}" if self.label else "a key without a label"
        if self.user:
            key = f"Kubernetes user {self.user}"
        return f"{key} ({self.role if self.role is Role.OPERATOR else f'team {self.role}'})"


RANK: Final = {role: rank for rank, role in enumerate(Role)}
NEEDS: Final[dict[Action, Role]] = {
    Action.READ_WORKLOAD: Role.VIEWER,
    Action.SUBMIT_WORKLOAD: Role.MEMBER,
    Action.CONTROL_WORKLOAD: Role.MEMBER,
    Action.EXEC_WORKLOAD: Role.MEMBER,
    Action.EVICT_WORKLOAD: Role.OPERATOR,
    Action.READ_FLEET: Role.VIEWER,
    Action.CONTROL_FLEET: Role.OPERATOR,
    Action.READ_CATALOGUE: Role.VIEWER,
    Action.READ_TEAM: Role.VIEWER,
    Action.APPLY_ORGANISATION: Role.OPERATOR,
    Action.MANAGE_KEYS: Role.ADMIN,
    Action.READ_METRICS: Role.OPERATOR,
}
"""The weakest role that may do it; an action that is missing here is denied to all roles."""


def authorise(subject: Subject, action: Action, team: str | None = None) -> AccessVerdict:
    """Whether `subject` may do `action` to an object of `team`; None: the object has no team."""
    is_operator = subject.role is Role.OPERATOR
    if team is not None and team != subject.team and not is_operator:
        return AccessVerdict.HIDDEN
    needed = NEEDS.get(action)
    if needed is None or RANK[subject.role] < RANK[needed]:
        return AccessVerdict.FORBIDDEN
    return AccessVerdict.ALLOWED


def may_grant(granter: Subject, role: Role) -> bool:
    """A key never makes a stronger one."""
    return RANK[role] <= RANK[granter.role]
