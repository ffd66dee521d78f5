"""The table of routes and the document that is made from it."""

import re

from services.gateway.api.openapi import PATH, document, text
from services.gateway.api.routes import ROUTES
from services.gateway.api.server import check_table


def test_every_route_has_a_handler_and_every_handler_a_route():
    check_table()


def test_the_committed_document_is_fresh():
    assert PATH.read_text() == text(), "python -m services.gateway.api.openapi --write"


def test_every_reference_leads_somewhere():
    components = document()["components"]["schemas"]

    wanted = set(re.findall(r'"#/components/schemas/([^"]+)"', text()))

    assert wanted == set(components) & wanted


def test_every_route_is_described_with_its_answers():
    paths = document()["paths"]

    for route in ROUTES:
        operation = paths[route.path][route.method.lower()]
        assert operation["summary"].endswith(".")
        for status, _ in route.answers:
            assert str(status) in operation["responses"]
        if route.action is not None:
            assert "401" in operation["responses"]


def test_routes_of_the_same_path_differ_in_their_method():
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_only_of_a_lost_node_a_fence_is_taken_and_that_is_described():
    paths = document()["paths"]
    conflicts = {
        verb: "409" in paths[f"/v1/nodes/{{name}}/{verb}"]["post"]["responses"]
        for verb in ("cordon", "drain", "uncordon", "fence")
    }

    assert {"cordon": False, "drain": False, "uncordon": False, "fence": True} == conflicts
