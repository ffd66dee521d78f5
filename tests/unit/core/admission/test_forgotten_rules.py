"""What admission forgets of teams, queues and classes."""

from __future__ import annotations

from shared.core.admission.rules import AdmissionRules
from shared.core.model.priority_classes import PriorityClass, built_in
from shared.core.quota.tree import QuotaDocument
from tests.unit.admission.builders import QUEUE, TEAM, rules


def test_a_team_is_forgotten_once():
    known = rules()

    known.forget_team(TEAM)
    known.forget_team(TEAM)

    assert known.teams == {}


def test_a_queue_is_forgotten_with_its_quota_and_older_documents_change_nothing():
    known = rules()
    node = known.queues[QUEUE].node

    known.forget_queue(QuotaDocument(name=QUEUE, kind="queue", version=2))
    known.apply_quota(QuotaDocument(name=QUEUE, kind="queue", version=1, team=TEAM))

    assert known.queues == {}
    assert node.owned("h100") == (0, 0, 0)


def test_a_class_is_forgotten_and_a_built_in_one_is_as_it_was_made():
    known = AdmissionRules()
    known.classes["gold"] = PriorityClass(name="gold", value=7)
    known.classes["training-batch"] = PriorityClass(name="training-batch", value=7)

    known.forget_class("gold")
    known.forget_class("training-batch")

    assert known.classes == built_in()
