"""`make up` keeps its ports over restarts, as long as they are free."""

import json
import socket
from pathlib import Path

import pytest

from deploy.local.ports import FILE, kept_ports

NAMES = ("gateway", "quota", "kafka")


def test_the_same_ports_come_again(tmp_path: Path):
    first = kept_ports(tmp_path, NAMES)

    assert first == kept_ports(tmp_path, NAMES)
    assert {"quota": first["quota"]} == kept_ports(tmp_path, ["quota"])
    assert 3 == len(set(first.values()))


def test_a_port_that_somebody_took_is_another_and_the_others_stay(tmp_path: Path):
    first = kept_ports(tmp_path, NAMES)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first["quota"]))
        taken.listen()
        second = kept_ports(tmp_path, NAMES)

    assert first["quota"] != second["quota"]
    assert first | {"quota": second["quota"]} == second
    assert second == kept_ports(tmp_path, NAMES)


def test_a_new_name_gets_a_port_that_no_other_has(tmp_path: Path):
    first = kept_ports(tmp_path, NAMES)

    added = kept_ports(tmp_path, ["fleet"])

    assert added["fleet"] not in first.values()
    assert first == kept_ports(tmp_path, NAMES)


@pytest.mark.parametrize("text", ["{", "[1]", '{"gateway": "x", "quota": 99999999}'])
def test_a_file_that_says_no_port_is_written_again(tmp_path: Path, text: str):
    (tmp_path / FILE).write_text(text)

    ports = kept_ports(tmp_path, NAMES)

    assert ports.items() <= json.loads((tmp_path / FILE).read_text()).items()
