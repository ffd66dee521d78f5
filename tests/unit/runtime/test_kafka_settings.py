"""What a process is told about Kafka: nothing is ignored in silence, and no password is shown."""

from __future__ import annotations

import ssl

import pytest
from pydantic import SecretStr, ValidationError

from shared.adapters.kafka.client import options
from shared.ports.kafka_access import (
    KafkaAccess,
    KafkaSettings,
    SecurityProtocol,
    access_of,
)

ACCESS = KafkaAccess(
    bootstrap="broker:9093",
    protocol=SecurityProtocol.SASL_SSL,
    user="muster_quota",
    password=SecretStr("canary"),
)


def test_a_process_is_told_by_its_environment(monkeypatch: pytest.MonkeyPatch):
    for name, text in ACCESS.variables().items():
        monkeypatch.setenv(name, text)

    assert ACCESS == KafkaSettings().kafka
    assert ACCESS == access_of(ACCESS.variables())


@pytest.mark.parametrize(
    ("protocol", "user"), [("PLAINTEXT", "somebody"), ("SASL_SSL", ""), ("SSL", "somebody")]
)
def test_a_user_without_sasl_and_sasl_without_a_user_are_refused(protocol: str, user: str):
    with pytest.raises(ValidationError, match="kafka_user is wanted with a SASL"):
        KafkaSettings(kafka_bootstrap="b:1", kafka_security_protocol=protocol, kafka_user=user)


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ValidationError, match="SASL_PLAINTEXT"):
        KafkaSettings(kafka_bootstrap="b:1", kafka_security_protocol="SASL")


def test_no_text_of_it_shows_the_password():
    settings = KafkaSettings(
        kafka_bootstrap="b:1",
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_user="muster_quota",
        kafka_password="canary",
    )

    for one in (ACCESS, settings, settings.kafka):
        assert "canary" not in f"{one!r} {one}"


def test_a_client_logs_in_and_checks_who_answers():
    found = options(ACCESS)

    assert ("muster_quota", "canary") == (
        found["sasl_plain_username"],
        found["sasl_plain_password"],
    )
    assert "SCRAM-SHA-512" == found["sasl_mechanism"]
    assert ssl.CERT_REQUIRED == found["ssl_context"].verify_mode
    assert found["ssl_context"].check_hostname


def test_nobody_sends_no_password():
    assert {"bootstrap_servers": "b:1", "security_protocol": "PLAINTEXT"} == options(
        KafkaAccess(bootstrap="b:1")
    )


def test_a_file_of_signers_that_is_not_there_is_told():
    with pytest.raises(FileNotFoundError):
        options(KafkaAccess(bootstrap="b:1", protocol=SecurityProtocol.SSL, ca_file="/nowhere"))
