"""Where `muster-ops` finds database and broker."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from operations.configuration import Addresses, NotConfigured, find
from shared.ports.kafka_access import KafkaAccess, SecurityProtocol

READING = KafkaAccess(
    bootstrap="local:9092",
    protocol=SecurityProtocol.SASL_PLAINTEXT,
    user="muster_operations",
    password=SecretStr("secret"),
)
STATE = {
    "database": "postgresql://local",
    "kafka": "local:9092",
    "kafka_logins": {"operations": READING.variables()},
}


def test_the_local_system_is_found_from_any_folder_below(tmp_path: Path):
    (tmp_path / ".muster").mkdir()
    (tmp_path / ".muster" / "state.json").write_text(json.dumps(STATE))
    deep = tmp_path / "a"
    deep.mkdir()

    found = find(environment={}, folder=deep)

    assert found == Addresses(database="postgresql://local", kafka=READING, prefix="muster")


def test_options_win_over_the_environment_and_that_over_the_local_system(tmp_path: Path):
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    environment = {"MUSTER_HOME": str(tmp_path), "MUSTER_KAFKA_BOOTSTRAP": "env:1"}

    found = find("postgresql://option", environment=environment, folder=tmp_path)

    assert (found.database, found.kafka) == ("postgresql://option", KafkaAccess(bootstrap="env:1"))


def test_nothing_found_says_what_to_give(tmp_path: Path):
    with pytest.raises(NotConfigured, match="--kafka"):
        find(environment={}, folder=tmp_path)
