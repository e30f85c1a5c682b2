"""Find the proxy of the environment by the rules of Go's clients, so that kubectl and Rollcall use the same one.

The rules of Python (`urllib.request`) and of httpx do not support networks in NO_PROXY, and read ALL_PROXY.

Source: golang.org/x/net/http/httpproxy, `FromEnvironment` and `useProxy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for requests to `url`, or None for a direct connection."""
    target = urlsplit(url)
    proxy = _variable(f"{target.scheme}_proxy", environment)
    host = target.hostname or ""
    if not proxy or _is_local(host):
        return None
    port = str(target.port or _PORTS[target.scheme])
    exceptions = _variable("no_proxy", environment).lower().split(",")
    if any(_matches(entry.strip(), host, port) for entry in exceptions):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(entry: str, host: str, port: str) -> bool:
    """Return whether an entry of NO_PROXY matches that host and port."""
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        return address is not None and _contains(entry, address)
    name, needed = _split(entry)
    if needed not in {"", port}:
        return False
    if address is not None:
        return _address(name) == address
    domain = name[1:] if name.startswith("*.") else name
    return bool(domain) and (host.endswith(f".{domain.removeprefix('.')}") or host == domain)


def _split(entry: str) -> tuple[str, str]:
    """Return host and port of `host`, `host:port`, `address` or `[address]:port`."""
    host, colon, port = entry.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    # Several colons without brackets are an IPv6 address.
    return (host, port) if colon and ":" not in host else (entry, "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _contains(network: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False
