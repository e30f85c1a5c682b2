"""The requests that an API server has had, as its own metrics count them."""

from __future__ import annotations

import re
from collections import Counter

from tests.e2e.control_plane import ControlPlane

_REQUESTS = re.compile(r'apiserver_request_total\{.*group="([^"]*)".*[{,]resource="([^"]*)".*verb="([A-Z]+)".*\} (\S+)')
# These are of the API server itself, and of a lease that is renewed all the time.
_LEFT_OUT = ("", "flowschemas", "leases", "prioritylevelconfigurations", "subjectaccessreviews", "tokenreviews")
Requests = Counter[tuple[str, str]]


def requests_of(plane: ControlPlane) -> Requests:
    """How many requests of each verb and resource there were so far, without watches: these end now and then, and
    resume where they were.
    """
    found: Requests = Counter()
    for line in plane.http.get("/metrics").text.splitlines():
        told = _REQUESTS.match(line)
        if told is not None and told[2] not in _LEFT_OUT and told[3] != "WATCH":
            found[told[3], told[2]] += int(float(told[4]))
    return found


def shown(requests: Requests) -> str:
    """The requests by verb and resource, the most frequent first."""
    return ", ".join(f"{count} {verb} {resource}" for (verb, resource), count in requests.most_common()) or "none"
