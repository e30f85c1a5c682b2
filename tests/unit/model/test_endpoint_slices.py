"""EndpointSlices: the endpoints of a Service, their ports, and whether they get traffic."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.model.reading import Malformed, ServiceEndpoint, endpoints_in

READY: dict[str, Any] = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}, "nodeName": "node-a"}
HTTPS = {"name": "https", "port": 8443}


@pytest.mark.parametrize(
    ("ports", "endpoint", "expected"),
    [
        ([HTTPS], READY, ServiceEndpoint(("10.0.0.1",), {"https": 8443}, ready=True, node="node-a")),
        # A port of a Service that has one port may have no name.
        ([{"port": 9443}], READY, ServiceEndpoint(("10.0.0.1",), {"": 9443}, ready=True, node="node-a")),
        # A port without a number is every port: a Service leads to none of them.
        ([{"name": "any"}, HTTPS], READY, ServiceEndpoint(("10.0.0.1",), {"https": 8443}, ready=True, node="node-a")),
        (None, READY, ServiceEndpoint(("10.0.0.1",), {}, ready=True, node="node-a")),
        # Who does not say is ready.
        ([], {"addresses": ["::1", "::2"]}, ServiceEndpoint(("::1", "::2"), {}, ready=True, node=None)),
        ([], {"conditions": {"ready": False}}, ServiceEndpoint((), {}, ready=False, node=None)),
    ],
)
def test_an_endpoint_is_read(ports: Any, endpoint: dict[str, Any], expected: ServiceEndpoint) -> None:
    assert list(endpoints_in({"ports": ports, "endpoints": [endpoint]})) == [expected]


def test_a_slice_without_endpoints_is_read_as_empty() -> None:
    assert list(endpoints_in({"ports": [HTTPS]})) == []


@pytest.mark.parametrize(
    "raw", [[], {"endpoints": {}}, {"endpoints": ["10.0.0.1"]}, {"ports": [{"port": "https"}], "endpoints": [READY]}]
)
def test_an_object_that_is_not_a_slice_is_malformed(raw: Any) -> None:
    with pytest.raises(Malformed):
        list(endpoints_in(raw))
