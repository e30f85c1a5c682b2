"""Environment variables, and the proxy that they select.

The answers are those of Go's clients, kubectl among them. `tests/unit/cluster/test_same_as_go.py` asks Go itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PROXY = "http://proxy.example:3128"


class ProxyCase(NamedTuple):
    environment: Mapping[str, str]
    url: str = "https://api.example.com:6443"
    expected: str | None = None


def with_exceptions(
    exceptions: str, url: str = "https://api.example.com:6443", expected: str | None = None
) -> ProxyCase:
    """Where there is a proxy, and these exceptions in NO_PROXY."""
    return ProxyCase({"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}, url, expected)


V4, V6 = "https://10.96.0.1:443", "https://[fd00::1]:443"

PROXIES: dict[str, ProxyCase] = {
    "no variable": ProxyCase({}),
    "a proxy for TLS": ProxyCase({"HTTPS_PROXY": PROXY}, expected=PROXY),
    "in small letters": ProxyCase({"https_proxy": PROXY}, expected=PROXY),
    "in capitals and in small letters": ProxyCase(
        {"https_proxy": "http://other", "HTTPS_PROXY": PROXY}, expected=PROXY
    ),
    "an empty one in capitals": ProxyCase({"https_proxy": PROXY, "HTTPS_PROXY": ""}, expected=PROXY),
    "a proxy without a scheme": ProxyCase({"HTTPS_PROXY": "proxy.example:3128"}, expected=PROXY),
    "a proxy without TLS is for URLs without TLS": ProxyCase({"HTTP_PROXY": PROXY}),
    "a URL without TLS": ProxyCase({"HTTP_PROXY": PROXY}, "http://api.example.com", PROXY),
    "for all schemes, which only other programs know": ProxyCase({"ALL_PROXY": PROXY}),
    "this machine by name": ProxyCase({"HTTPS_PROXY": PROXY}, "https://localhost:6443"),
    "this machine by address": ProxyCase({"HTTPS_PROXY": PROXY}, "https://127.0.0.1:6443"),
    "this machine by its IPv6 address": ProxyCase({"HTTPS_PROXY": PROXY}, "https://[::1]:6443"),
    "everything excepted": with_exceptions("*"),
    "the host excepted": with_exceptions("api.example.com"),
    "the host in capitals excepted": with_exceptions("API.example.com"),
    "its domain excepted": with_exceptions("other.org, example.com"),
    "its domain with a dot excepted": with_exceptions(".example.com"),
    "its domain with a star excepted": with_exceptions("*.example.com"),
    "only names below the host excepted": with_exceptions(".api.example.com", expected=PROXY),
    "another domain that ends alike": with_exceptions("ample.com", expected=PROXY),
    "a star that is no label": with_exceptions("*example.com", expected=PROXY),
    "the host and its port": with_exceptions("api.example.com:6443"),
    "the host and another port": with_exceptions("api.example.com:443", expected=PROXY),
    "empty exceptions": with_exceptions(" ,, ", expected=PROXY),
    "the address": with_exceptions("10.96.0.1", V4),
    "the address and its port, which the URL may leave out": with_exceptions("10.96.0.1:443", "https://10.96.0.1"),
    "the address and another port": with_exceptions("10.96.0.1:6443", V4, PROXY),
    "its network": with_exceptions("192.168.0.0/16,10.96.0.0/12", V4),
    "its network by an address in it": with_exceptions("10.100.1.2/12", V4),
    "another network": with_exceptions("10.0.0.0/16", V4, PROXY),
    "a network that is none": with_exceptions("10.96.0.0/40", V4, PROXY),
    "a domain that ends like the address": with_exceptions(".0.1", V4, PROXY),
    "the IPv6 address": with_exceptions("fd00::1", V6),
    "the IPv6 address in brackets": with_exceptions("[fd00::1]:443", V6),
    "the IPv6 address and another port": with_exceptions("[fd00::1]:6443", V6, PROXY),
    "its IPv6 network": with_exceptions("fd00::/8", V6),
    "a network of the other family": with_exceptions("0.0.0.0/0", V6, PROXY),
}
