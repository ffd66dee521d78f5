"""I21: a record that cannot be read is set aside by its reader: it is told, and blocks none.

Anyone with a login of a team can write one to the topic of that team: a batch that grows without
bound when it is unpacked, a codec without a library, no event at all.
"""

from __future__ import annotations

from operations.check.causes import read_until
from operations.check.log import DEAD_LETTERS
from operations.check.model import Evidence, Findings, foreign


def check_unreadable(evidence: Evidence) -> Findings:
    """Every record that cannot be read, but for those in the dead letters and the unread ones."""
    log = evidence.log
    findings = Findings(checked=len(log.records) + len(log.unreadable))
    read = read_until(evidence, "admission")
    waiting = _letters_to_come(evidence)
    for place, reason in log.unreadable.items():
        topic, partition, offset = place
        ends = read if foreign(topic) else log.ends_before
        if (
            offset < ends.get((topic, partition), 0)
            and place not in log.dead
            and topic not in waiting
        ):
            text = f"cannot be read, and is not in the dead letters: {reason}"
            findings.add(f"{topic}[{partition}]@{offset}", text)
    return findings


def _letters_to_come(evidence: Evidence) -> set[str]:
    """Topics with letters that are decided, and not yet acknowledged by the log."""
    acked = {(row["schema"], row["shard"]): row["acked_seq"] for row in evidence.rows["watermark"]}
    return {
        row["topic"].removesuffix(DEAD_LETTERS)
        for row in evidence.rows["outbox"]
        if row["topic"].endswith(DEAD_LETTERS)
        and row["seq"] > acked.get((row["schema"], row["shard"]), 0)
    }
