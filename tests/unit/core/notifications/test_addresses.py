"""Where a webhook may be sent: nothing of this network, in no spelling, unless it is named."""

import pytest

from shared.core.notifications.addresses import (
    is_plain,
    literal_of,
    networks_of,
    problem_of_address,
    problem_of_url,
)

NAMED = networks_of("10.1.0.0/16, ::1, 127.0.0.0/8")
PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "ff02::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert problem_of_address(address, ())


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111"])
def test_what_is_public_is_reached_by_https_alone(address: str) -> None:
    assert not problem_of_address(address, ())
    assert "https" in problem_of_address(address, (), plain=True)


def test_a_network_that_is_named_is_reached_in_every_way() -> None:
    assert not problem_of_address("10.1.2.3", NAMED, plain=True)
    assert not problem_of_address("::1", NAMED, plain=True)
    assert problem_of_address("10.2.0.1", NAMED)


@pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:10.1.0.1", "fe80::1"])
def test_what_nothing_is_ever_sent_to_cannot_be_named(address: str) -> None:
    assert "ever" in problem_of_address(address, networks_of("0.0.0.0/0,::/0"))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://user:pw@hooks.example.org/x", "user info"),
        ("https://hooks.example.org\\@127.0.0.1/", "user info"),
        ("https://hooks.example.org:99999/", "must be a URL"),
        ("https://[::1", "must be a URL"),
        ("ftp://hooks.example.org/", "https://HOST/PATH"),
        ("https:///x", "https://HOST/PATH"),
        ("https://hooks.example.org/a b", "printable"),
        ("https://hööks.example.org/", "printable"),
        ("https://hooks.example.org/" + "x" * 2_048, "at most"),
        ("https://127.0.0.1/", "MUSTER_NOTIFICATION_NETWORKS"),
        ("https://[::ffff:10.0.0.1]/", "ever"),
        ("http://hooks.example.org/", "https on port 443"),
        ("https://hooks.example.org:8443/", "https on port 443"),
        ("http://8.8.8.8/", "https on port 443"),
    ],
)
def test_a_url_that_breaks_a_rule_says_which(url: str, rule: str) -> None:
    assert rule in problem_of_url(url, ())


def test_sound_urls_have_no_problem() -> None:
    assert not problem_of_url("https://hooks.example.org/services/T0/B0", ())
    assert not problem_of_url("https://8.8.8.8:443/", ())
    assert not problem_of_url("http://receiver.local:8080/", NAMED)
    assert not is_plain("https://hooks.example.org/")
    assert is_plain("http://hooks.example.org/")
    assert literal_of("hooks.example.org") is None


def test_networks_are_told_apart_from_words() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        networks_of("nonsense")
    assert () == networks_of("")
