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


def past(exceptions: str, url: str = "https://api.example.com:6443", expected: str | None = None) -> ProxyCase:
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
    "everything excepted": past("*"),
    "the host excepted": past("api.example.com"),
    "the host in capitals excepted": past("API.example.com"),
    "its domain excepted": past("other.org, example.com"),
    "its domain with a dot excepted": past(".example.com"),
    "its domain with a star excepted": past("*.example.com"),
    "only names below the host excepted": past(".api.example.com", expected=PROXY),
    "another domain that ends alike": past("ample.com", expected=PROXY),
    "a star that is no label": past("*example.com", expected=PROXY),
    "the host and its port": past("api.example.com:6443"),
    "the host and another port": past("api.example.com:443", expected=PROXY),
    "empty exceptions": past(" ,, ", expected=PROXY),
    "the address": past("10.96.0.1", V4),
    "the address and its port, which the URL may leave out": past("10.96.0.1:443", "https://10.96.0.1"),
    "the address and another port": past("10.96.0.1:6443", V4, PROXY),
    "its network": past("192.168.0.0/16,10.96.0.0/12", V4),
    "its network by an address in it": past("10.100.1.2/12", V4),
    "another network": past("10.0.0.0/16", V4, PROXY),
    "a network that is none": past("10.96.0.0/40", V4, PROXY),
    "a domain that ends like the address": past(".0.1", V4, PROXY),
    "the IPv6 address": past("fd00::1", V6),
    "the IPv6 address in brackets": past("[fd00::1]:443", V6),
    "the IPv6 address and another port": past("[fd00::1]:6443", V6, PROXY),
    "its IPv6 network": past("fd00::/8", V6),
    "a network of the other family": past("0.0.0.0/0", V6, PROXY),
}
