"""The file with a site's own classes of XIDs."""

import pytest

from services.placement.nodes.health_rules import read_overrides
from shared.core.health.xid import XidClass


def test_without_a_file_nothing_is_different():
    assert not read_overrides(None)


def test_a_file_names_classes_by_xid(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("- {xid: 109, class: app}\n- {xid: 54, class: note}\n")

    assert {109: XidClass.APP, 54: XidClass.NOTE} == read_overrides(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {xid: 109, class: app}\n- {xid: 109, class: note}\n", "xid: 109 is there twice"),
        ("- {xid: 0, class: app}\n", "xid: 0 is not from 1"),
        ("- {xid: 109, class: fine}\n", "class: 'fine' of XID 109 is not one of note, app"),
        ("- {xid: many, class: app}\n", "Expected `int`"),
        ("- {xid: 109, class: app, why: x}\n", "unknown field `why`"),
        ("xids: [109]\n", "Expected `array`"),
        ("- {xid: 109", "rules.yaml"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path, text, said):
    file = tmp_path / "rules.yaml"
    file.write_text(text)

    with pytest.raises(ValueError, match=r"MUSTER_HEALTH_RULES_FILE: .*rules.yaml") as error:
        read_overrides(file)
    assert said in str(error.value)
