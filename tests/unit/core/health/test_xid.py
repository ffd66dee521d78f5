"""The class of every XID from 1 to 172, as the table of the field says."""

from __future__ import annotations

import pytest

from shared.core.health.xid import XidClass, class_of, overrides_of

TABLE = {
    "note": "14 37 38 43 44 63 66 67 78 92 93 106 107 108 121 137 141 152 153 157 159 160 161 162"
    " 163 164 165 166 170",
    "app": "8 11 13 25 31 32 39 40 41 60 68 69 70 71 72 75 76 77 80 82 83 84 85 86 88 89 94 96 97"
    " 98 99 100 101 102 103 104 105 126 127 128 129 130 131 132 133 134 135 139",
    "reset": "46 62 64 95 109 110 119 120 136 140 143 155 156 158 167 168 169",
    "memory": "48 171 172",
    "link": "74 144 145 146 147 148 149 150",
    "node": "79 151",
    "follow": "45 154",
}
WANTED = {int(code): kind for kind, codes in TABLE.items() for code in codes.split()}


@pytest.mark.parametrize("xid", range(1, 173))
def test_the_class_of_each_code(xid):
    assert class_of(xid) == WANTED.get(xid, "check")


def test_a_contained_error_of_an_instance_concerns_the_instance():
    assert class_of(94, 3) is XidClass.SLICE
    assert class_of(95, 3) is XidClass.RESET


def test_a_code_that_nobody_knows_is_to_be_looked_at():
    assert class_of(999) is XidClass.CHECK


def test_a_site_overrides_one_code():
    own = overrides_of([(13, "reset"), (999, "note")])

    assert (class_of(13, overrides=own), class_of(999, overrides=own)) == ("reset", "note")
    assert class_of(31, overrides=own) is XidClass.APP


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ([(13, "app"), (13, "note")], "xid: 13 is there twice, each is allowed once"),
        ([(0, "app")], "xid: 0 is not from 1 to 10000"),
        ([(13, "what")], "class: 'what' of XID 13 is not one of note, app"),
    ],
)
def test_rules_of_a_site_that_cannot_be_are_refused(pairs, problem):
    with pytest.raises(ValueError, match=problem):
        overrides_of(pairs)
