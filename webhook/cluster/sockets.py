"""Below HTTP: sockets to listen on, TLS as a client, and the proxy of the environment, each as Kubernetes components
have them.

Those components are written in Go. Sockets listen on both IPv6 and IPv4 unless an address says otherwise. Go's
verifier checks only the chain, the time and the host name; OpenSSL is set up here to do the same with every supported
Python (`docs/how-to/installing.md` lists the remaining differences). The rules of Python (`urllib.request`) and of
httpx do not support networks in NO_PROXY, and read ALL_PROXY, so proxies are found by Go's rules, as kubectl does.

Source: Go, crypto/x509 `Certificate.Verify`, `VerifyHostname` and `CertPool.AppendCertsFromPEM`;
golang.org/x/net/http/httpproxy, `FromEnvironment` and `useProxy`.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from webhook.errors import CertificateError, InputError

# Every address of the machine, IPv6 and IPv4.
EVERYWHERE = ""
# Addresses that mean every address of the machine.
WILDCARDS = frozenset({EVERYWHERE, "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
LOOPBACKS = ("127.0.0.1", "::1")
_BACKLOG = 2048


def listening(host: str, port: int) -> socket.socket:
    """Returns a socket that listens there. Raises `InputError` if that fails.

    `::` includes IPv4. `EVERYWHERE` is the same, or only IPv4 if the machine has no IPv6.
    """
    try:
        if host == EVERYWHERE and not socket.has_dualstack_ipv6():
            return socket.create_server((host, port), backlog=_BACKLOG)
        wildcard = host in {EVERYWHERE, "::"}
        family = socket.AF_INET6 if wildcard or ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=wildcard)
    except OSError as error:
        # An unknown host name has no errno of the system, and Python repeats the reason in brackets.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else str(error.strerror or error).partition(" (")[0]
        where = f"{host} port {port}" if host else f"port {port}"
        raise InputError("", f"cannot listen on {where}: {why}") from None


def reached_at(listener: socket.socket) -> tuple[str, int]:
    """Returns the address and port of the socket for a client on this machine."""
    host, port = listener.getsockname()[:2]
    if host == "::":
        # The socket also accepts IPv4, and a machine may have only one of the two loopback addresses.
        return next((loopback for loopback in LOOPBACKS if _has(loopback)), "::1"), port
    return "127.0.0.1" if host in WILDCARDS else host, port


def _has(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


# Keys and text between the certificates of a bundle are ignored.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----")


def verifying() -> ssl.SSLContext:
    """Returns a context that verifies servers as Go does, and has no trusted CA yet."""
    # Not `ssl.create_default_context`: since Python 3.13 it sets VERIFY_X509_STRICT, which refuses certificates without
    # key identifiers or key usage. Clusters have such certificates, and Go accepts them.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Every certificate in Go's root pool is a trust anchor, even if another CA signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Go compares the host only with the alternative names.
    context.hostname_checks_common_name = False
    return context


def trusting(bundle: bytes) -> ssl.SSLContext:
    """Returns a context that trusts the certificates in `bundle` (PEM), including intermediates and server
    certificates.

    Raises `CertificateError` if the bundle has no certificate. A certificate that cannot be read is ignored, as in Go.
    """
    context = verifying()
    for certificate in _CERTIFICATE.findall(bundle):
        with suppress(ssl.SSLError):
            context.load_verify_locations(cadata=certificate.decode("ascii"))
    if not context.cert_store_stats()["x509"]:
        raise CertificateError("there is no certificate in PEM form")
    return context


def trusting_system() -> ssl.SSLContext:
    """Returns a context that trusts the certificate authorities of the operating system."""
    context = verifying()
    context.load_default_certs()
    return context


def looking() -> ssl.SSLContext:
    """Returns a context that accepts any server: to read its certificate, not to trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """Returns the URL of the proxy for requests to `url`, or None for a direct connection."""
    target = urlsplit(url)
    proxy = _variable(f"{target.scheme}_proxy", environment)
    host = target.hostname or ""
    address = _address(host)
    if not proxy or host == "localhost" or (address is not None and address.is_loopback):
        return None
    port = str(target.port or _PORTS[target.scheme])
    exceptions = _variable("no_proxy", environment).lower().split(",")
    if any(_matches(entry.strip(), host, port) for entry in exceptions):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _matches(entry: str, host: str, port: str) -> bool:
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
    """Returns host and port of `host`, `host:port`, `address` or `[address]:port`."""
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
