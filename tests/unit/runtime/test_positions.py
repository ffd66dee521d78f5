"""Where reading goes on: the rule, and what stays lost until a person has chosen."""

from __future__ import annotations

import pytest

from shared.ports.errors import LogLost
from shared.ports.publisher import PartitionLog
from shared.ports.store import Restored
from shared.runtime.positions import Position, Positions, is_lost, offset_in

TOPIC = "submission.commands.v1"
HERE = (TOPIC, 0)


def a_log(start=0, end=10, topic_id="one"):
    return PartitionLog(topic_id=topic_id, start_offset=start, end_offset=end)


def stored_at(offset, topic_id="one", positions=None):
    """Positions of a shard with one row; without an id the row is of an older version."""
    positions = positions or Positions("quota")
    ids = {HERE: topic_id} if topic_id else {}
    positions.restore(Restored(epoch=1, shard="cell-0", offsets={HERE: offset}, topic_ids=ids))
    return positions


@pytest.mark.parametrize(
    ("log", "stored", "next_offset", "lost"),
    [
        pytest.param(a_log(), None, 0, False, id="nothing was read yet"),
        pytest.param(a_log(start=4), None, 4, False, id="nothing was read yet, some is gone"),
        pytest.param(a_log(), Position(next_offset=7, topic_id="one"), 7, False, id="inside"),
        pytest.param(a_log(), Position(next_offset=0, topic_id="one"), 0, False, id="beginning"),
        pytest.param(a_log(), Position(next_offset=10, topic_id="one"), 10, False, id="end"),
        pytest.param(
            a_log(start=10), Position(next_offset=10, topic_id="one"), 10, False, id="all expired"
        ),
        pytest.param(
            a_log(start=4), Position(next_offset=4, topic_id="one"), 4, False, id="just kept"
        ),
        pytest.param(
            a_log(start=4), Position(next_offset=3, topic_id="one"), 3, True, id="one removed"
        ),
        pytest.param(
            a_log(), Position(next_offset=11, topic_id="one"), 11, True, id="end is lost"
        ),
        pytest.param(a_log(), Position(next_offset=7, topic_id="two"), 0, False, id="made again"),
        pytest.param(
            a_log(), Position(next_offset=400, topic_id="two"), 0, False, id="made again, shorter"
        ),
        pytest.param(
            a_log(start=4),
            Position(next_offset=7, topic_id="two"),
            0,
            True,
            id="made again and trimmed",
        ),
        pytest.param(a_log(), Position(next_offset=7), 7, False, id="row without an id"),
        pytest.param(
            a_log(topic_id=""),
            Position(next_offset=7, topic_id="one"),
            7,
            False,
            id="broker without ids",
        ),
    ],
)
def test_where_reading_goes_on_and_whether_it_can(log, stored, next_offset, lost):
    assert (next_offset, lost) == (offset_in(log, stored), is_lost(log, next_offset))


def test_records_that_were_removed_unread_are_one_sentence_with_numbers_and_the_next_step():
    with pytest.raises(LogLost) as caught:
        stored_at(25).starts({HERE: a_log(start=40, end=90)})

    assert caught.value.sentences == {
        HERE: (
            "submission.commands.v1 partition 0: the log begins at offset 40, and 25 is next to be"
            " read: records that were removed unread: 15; restore the records and restart the"
            " service, or accept the loss and let it read the log from its beginning, without what"
            " it has handled already: UPDATE quota.consumer_offset SET next_offset = 40,"
            " topic_id = 'one' WHERE shard = 'cell-0' AND topic = 'submission.commands.v1' AND"
            " partition = 0"
        )
    }


def test_a_log_that_lost_its_end_says_so():
    with pytest.raises(LogLost, match="the log ends at offset 100, and 179 is next to be read"):
        stored_at(179).starts({HERE: a_log(end=100)})


def test_of_several_partitions_each_that_is_lost_is_told():
    with pytest.raises(LogLost) as caught:
        stored_at(5).starts({HERE: a_log(start=6), ("other", 0): a_log(), (TOPIC, 1): a_log()})

    assert [HERE] == list(caught.value.sentences)


def test_a_log_that_grows_beyond_the_offset_again_has_still_lost_its_end():
    positions = stored_at(179)
    with pytest.raises(LogLost) as first:
        positions.starts({HERE: a_log(end=100)})

    with pytest.raises(LogLost) as second:
        stored_at(179, positions=positions).starts({HERE: a_log(end=400)})

    assert first.value.sentences == second.value.sentences


@pytest.mark.parametrize(
    ("offset", "log"),
    [(0, a_log(end=400)), (100, a_log(end=400)), (179, a_log(end=400, topic_id="two"))],
)
def test_it_is_over_when_the_row_or_the_topic_is_another(offset, log):
    positions = stored_at(179)
    with pytest.raises(LogLost):
        positions.starts({HERE: a_log(end=100)})

    starts = stored_at(offset, positions=positions).starts({HERE: log})
    again = stored_at(179, positions=positions).starts({HERE: a_log(end=400)})

    assert {HERE: 0 if log.topic_id == "two" else offset} == starts
    assert {HERE: 179} == again


def test_what_nobody_wanted_until_now_may_be_gone():
    log = a_log(start=6)

    assert {HERE: 6} == stored_at(5).starts({HERE: log}, begun_late=True)
    assert {HERE: 8} == stored_at(8).starts({HERE: log}, begun_late=True)
    with pytest.raises(LogLost):
        stored_at(11).starts({HERE: log}, begun_late=True)


@pytest.mark.parametrize(
    ("positions", "log", "noted"),
    [
        (stored_at(5), a_log(), []),
        (stored_at(5, topic_id=""), a_log(), [(*HERE, 4)]),
        (stored_at(5, topic_id="two"), a_log(), [(*HERE, -1)]),
        (stored_at(5), a_log(topic_id=""), []),
        (Positions("quota"), a_log(), [(*HERE, -1)]),
        (Positions("quota"), a_log(start=4), [(*HERE, 3)]),
    ],
)
def test_a_row_is_noted_at_once_where_it_says_anything_else(positions, log, noted):
    assert noted == positions.to_note(positions.starts({HERE: log}))
