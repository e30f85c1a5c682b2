"""POST /next on the next port: says over which certificate it was asked, and decides nothing.

Before a certificate of another authority is served, the API server must be seen to believe that authority. So the pair
that is to follow is shown on a port of its own, and a webhook that nothing depends on leads there; its warning proves
that the API server accepted exactly that certificate.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from webhook.errors import Overloaded, ReviewError, TooLarge
from webhook.installation.names import NEXT_PATH, NEXT_WARNING
from webhook.model.admission_request import Verdict
from webhook.server.answers import JSON, ClientGone, answer, plain, read_body
from webhook.server.connections import SHOWN
from webhook.server.review import read_review, write_review
from webhook.server.timeouts import budget

# One asks, for ConfigMaps of one namespace; the rest of what comes here is no business of ours.
MAX_IN_FLIGHT = 8
# Each question needs a handshake of its own, or it would say nothing of the certificate that is shown now.
_LAST = (b"connection", b"close")


def create_next_app() -> ASGIApp:
    """The application of the next port."""
    in_flight = 0

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal in_flight
        if scope["path"] != f"/{NEXT_PATH}":
            await plain(send, 404, f"only /{NEXT_PATH} is answered here", _LAST)
            return
        if scope["method"] != "POST":
            await plain(send, 405, "only POST is answered here", (b"allow", b"POST"), _LAST)
            return
        in_flight += 1
        try:
            if in_flight > MAX_IN_FLIGHT:
                raise Overloaded(f"more than {MAX_IN_FLIGHT} calls at once")
            await answer(send, 200, await _answered(scope, receive), JSON, _LAST)
        except ClientGone:
            return
        except ReviewError as error:
            await plain(send, 400, str(error), _LAST)
        except TooLarge as error:
            await plain(send, 413, str(error))
        except Overloaded as error:
            await plain(send, 503, str(error), _LAST)
        except TimeoutError:
            await plain(send, 504, "the body did not arrive in time")
        finally:
            in_flight -= 1

    return application


async def _answered(scope: Scope, receive: Receive) -> bytes:
    async with asyncio.timeout(budget(scope["query_string"])):
        body = await read_body(scope, receive)
    api_version, request = read_review(body)
    shown = scope["state"][SHOWN]
    return write_review(api_version, request, Verdict(notes=(f"{NEXT_WARNING}{shown}",)))
