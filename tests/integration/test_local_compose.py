"""docker-compose.yml says the same as the local runner, because both follow one table.

`make compose-test` runs the file; what can be read in it is tested here, on every machine.
"""

import pytest
import yaml

from deploy.local import compose
from deploy.local.services import SERVICES
from services.gateway.documents.keys import prefix_of

LONG_RUNNING = {"kafka", "postgres", *(row.name for row in SERVICES)}


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


def test_the_gateway_takes_the_published_key():
    document = yaml.safe_load(compose.rendered())

    assert prefix_of(document["configs"]["key"]["content"].strip()) is not None
    assert document["services"]["gateway"]["environment"]["MUSTER_KEY"] == compose.KEY


@pytest.mark.parametrize("name", sorted(LONG_RUNNING))
def test_what_runs_for_ever_is_looked_after(name: str):
    entry = yaml.safe_load(compose.rendered())["services"][name]

    assert entry["restart"] == "always"
    assert entry["healthcheck"]["test"][0] == "CMD"
    assert {"interval", "timeout", "retries", "start_period"} < set(entry["healthcheck"])
    assert entry["mem_limit"]
    assert entry["logging"]["options"] == {"max-size": "10m", "max-file": "3"}


def test_the_health_of_a_service_is_what_its_probe_says():
    services = yaml.safe_load(compose.rendered())["services"]

    for row in SERVICES:
        assert services[row.name]["healthcheck"]["test"] == ["CMD", "healthy", "8080", row.probe]


def test_waiting_is_for_health_not_for_a_start():
    services = yaml.safe_load(compose.rendered())["services"]
    conditions = {
        waits["condition"]
        for entry in services.values()
        for waits in entry.get("depends_on", {}).values()
    }

    assert conditions == {"service_healthy", "service_completed_successfully"}


def test_the_database_is_asked_by_tcp_and_the_broker_without_a_java_machine():
    services = yaml.safe_load(compose.rendered())["services"]

    assert {"-h", "127.0.0.1", "-d"} < set(services["postgres"]["healthcheck"]["test"])
    assert "/dev/tcp/127.0.0.1/9092" in services["kafka"]["healthcheck"]["test"][-1]
    assert "-Xmx512m" in services["kafka"]["environment"]["KAFKA_HEAP_OPTS"]


def test_ports_are_published_on_the_loopback_alone():
    services = yaml.safe_load(compose.rendered())["services"]
    published = [port for entry in services.values() for port in entry.get("ports", [])]

    assert published == ["127.0.0.1:9092:9094", "127.0.0.1:8080:8080"]


def test_clients_on_the_host_are_told_an_address_that_they_reach():
    broker = yaml.safe_load(compose.rendered())["configs"]["kafka"]["content"]

    assert "advertised.listeners=CLIENTS://kafka:9092,OUTSIDE://127.0.0.1:9092\n" in broker
    assert "listener.name.outside.scram-sha-512.sasl.jaas.config=" in broker


def test_the_image_is_built_once_and_never_pulled():
    services = yaml.safe_load(compose.rendered())["services"]
    ours = {name: entry for name, entry in services.items() if entry["image"] == "muster-gpu"}

    assert [name for name, entry in ours.items() if "build" in entry] == ["prepare"]
    assert {entry["pull_policy"] for entry in ours.values()} == {"never"}


def test_a_stale_file_is_noticed(monkeypatch, tmp_path):
    stale = tmp_path / "docker-compose.yml"
    stale.write_text(compose.rendered() + "# changed by hand\n")
    monkeypatch.setattr(compose, "FILE", stale)

    assert compose.main(write=False) == 1
    assert compose.main(write=True) == 0
    assert compose.main(write=False) == 0
