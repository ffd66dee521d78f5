"""What pods are told of names: the endpoints of a Service, read from the API server."""

import socket
import struct
from pathlib import Path

import pytest

from deploy.kubelets import dns

NAME = "w1-1-1.w1-1.red.svc.cluster.local"
ADDRESS, OTHER = 1, 28
OK, NO_SUCH_NAME, FAILED = 0, 3, 2


class Api:
    """An API server with one Service of two endpoints."""

    asked: list[str]
    error: OSError | None = None

    def __init__(self, kubeconfig):
        Api.asked = []

    def request(self, method, path):
        if self.error is not None:
            raise self.error
        Api.asked.append(path)
        endpoints = [
            {"hostname": "w1-1-0", "addresses": ["10.1.1.2"], "conditions": {"ready": True}},
            {"hostname": "w1-1-1", "addresses": ["10.1.2.2"], "conditions": {"ready": True}},
            {"hostname": "w1-1-2", "addresses": ["10.1.3.2"], "conditions": {"ready": False}},
        ]
        return 200, {"items": [{"endpoints": endpoints}]}

    def close(self):
        pass


@pytest.fixture(autouse=True)
def api(monkeypatch):
    monkeypatch.setattr(dns, "ApiClient", Api)
    dns._addresses.cache_clear()
    yield Api
    Api.error = None


def query(name, kind=ADDRESS):
    labels = b"".join(bytes([len(one)]) + one.encode() for one in name.split("."))
    return struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!xHH", kind, 1)


def asked(name, kind=ADDRESS):
    """Code and addresses of the answer."""
    question = query(name, kind)
    reply = dns.answer(question, Path("kubeconfig"))
    number, flags, questions, answers, *_ = struct.unpack_from("!HHHHHH", reply)
    assert (7, 1, question[12:]) == (number, questions, reply[12 : len(question)])
    records = reply[len(question) :]
    assert 16 * answers == len(records)
    found = [socket.inet_ntoa(records[at + 12 : at + 16]) for at in range(0, len(records), 16)]
    return flags & 0xF, found


def test_a_pod_of_a_headless_service_has_its_address_in_any_case_of_letters():
    assert (OK, ["10.1.2.2"]) == asked(NAME)
    assert (OK, ["10.1.2.2"]) == asked(NAME.upper())
    assert "service-name%3Dw1-1" in Api.asked[0]
    assert "/namespaces/red/" in Api.asked[0]


def test_a_service_has_those_of_all_that_are_ready():
    assert (OK, ["10.1.1.2", "10.1.2.2"]) == asked("w1-1.red.svc.cluster.local")
    assert (NO_SUCH_NAME, []) == asked("w1-1-2.w1-1.red.svc.cluster.local")


def test_another_kind_of_record_is_not_there_though_the_name_is():
    assert (OK, []) == asked(NAME, OTHER)


def test_names_of_nobody_are_said_not_to_exist():
    assert (NO_SUCH_NAME, []) == asked("w1-1-7.w1-1.red.svc.cluster.local")
    assert (NO_SUCH_NAME, []) == asked("example.org")


def test_an_api_server_that_is_away_is_a_failure_and_no_answer(api):
    api.error = OSError("away")

    assert (FAILED, []) == asked(NAME)


@pytest.mark.parametrize("text", [b"", b"x", query(NAME)[:20], query(NAME)[:-1]])
def test_what_is_no_query_is_told_as_such(text):
    with pytest.raises((ValueError, IndexError, struct.error)):
        dns.answer(text, Path("kubeconfig"))


def test_a_name_that_is_asked_for_twice_in_a_second_is_looked_up_once(api, monkeypatch):
    seconds = iter([1.0, 1.5, 2.0])
    monkeypatch.setattr("deploy.kubelets.dns.time.monotonic", lambda: next(seconds))
    looked_up = []
    monkeypatch.setattr(Api, "close", lambda _: looked_up.append(1))

    for _ in range(3):
        asked(NAME)

    assert len(looked_up) == 2
