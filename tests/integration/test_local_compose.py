"""docker-compose.yml says the same as the local runner, because both follow one table."""

import yaml

from deploy.local import compose
from deploy.local.services import SERVICES


def test_the_committed_file_is_fresh():
    assert compose.rendered() == compose.FILE.read_text()


def test_every_process_is_in_it_with_its_settings():
    services = yaml.safe_load(compose.rendered())["services"]

    for row in SERVICES:
        assert services[row.name]["command"] == ["python", "-m", row.module]
        assert services[row.name]["environment"]["MUSTER_SLOT"] == row.name
        assert set(row.needs) < set(services[row.name]["depends_on"])


def test_what_a_process_waits_for_is_in_it():
    services = yaml.safe_load(compose.rendered())["services"]

    for entry in services.values():
        assert set(entry.get("depends_on", {})) <= set(services)


def test_whoever_talks_to_the_broker_has_a_user_there():
    document = yaml.safe_load(compose.rendered())
    users = dict(
        line.split("=") for line in document["configs"]["kafka-users"]["content"].splitlines()
    )

    for row in SERVICES:
        variables = document["services"][row.name]["environment"]
        assert ("kafka" in row.needs) == ("MUSTER_KAFKA_USER" in variables)
        if "kafka" in row.needs:
            assert variables["MUSTER_KAFKA_SECURITY_PROTOCOL"] == "SASL_PLAINTEXT"
            assert variables["MUSTER_KAFKA_PASSWORD"] == users[row.role]
    broker = document["configs"]["kafka"]["content"]
    assert "allow.everyone.if.no.acl.found=false" in broker
    assert ":PLAINTEXT" not in broker


def test_a_stale_file_is_noticed(monkeypatch, tmp_path):
    stale = tmp_path / "docker-compose.yml"
    stale.write_text(compose.rendered() + "# changed by hand\n")
    monkeypatch.setattr(compose, "FILE", stale)

    assert compose.main(write=False) == 1
    assert compose.main(write=True) == 0
    assert compose.main(write=False) == 0
