"""Which remedy a refused submission is told for each rule that it breaks."""

from __future__ import annotations

import pytest

from shared.core.admission.remedy import next_step, remedy
from shared.core.model.decision import FieldError


@pytest.mark.parametrize(
    ("field", "rule", "told"),
    [
        ("max_retries", "must be 0 to 10", "set max_retries to 0 to 10"),
        ("x.milli", "must be below 1000; ask for whole GPUs", "set x.milli to below 1000"),
        ("pod_sets", "must have different names", "change pod_sets, which must have different"),
        ("", "goes only with milli", "change the body: goes only with milli"),
    ],
)
def test_a_rule_of_form_says_what_the_field_must_be(field, rule, told):
    assert remedy(FieldError(field=field, value="v", rule=rule)).startswith(told)


def test_a_rule_that_brings_its_remedy_is_told_by_it_and_the_same_remedy_once():
    fewer = FieldError(field="a", value="9", rule="too many", remedy="ask for at most 400 pods")
    form = FieldError(field="name", value="", rule="must be a DNS label")

    assert next_step((fewer, fewer)) == "ask for at most 400 pods, then submit it again"
    both = "ask for at most 400 pods; set name to a DNS label, then submit it again"
    assert next_step((fewer, form)) == both
    assert not next_step(())
