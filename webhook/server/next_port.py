"""POST /next on the next port: report the certificate of the connection, and decide nothing.

Before a certificate of another CA is served, the API server must be seen to trust that CA. So the next pair is served
on its own port, and a webhook that nothing depends on calls that port. The warning in its answer proves that the API
server accepted exactly that certificate.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from webhook.errors import DeadlineExceeded, Overloaded, ReviewError, TooLarge
from webhook.installation.names import NEXT_PATH, NEXT_WARNING
from webhook.model.admission_request import Verdict
from webhook.server.answers import JSON, ClientGone, answer, plain, read_body
from webhook.server.carriers import carrier_of
from webhook.server.connection import SHOWN
from webhook.server.intake import Intake
from webhook.server.review import read_review, write_review
from webhook.server.timeouts import budget

# Each request must make its own handshake, so that the answer names the certificate that is served now.
_LAST = (b"connection", b"close")
# The request is about a ConfigMap without data, created as a dry run by the reconciler: some 2 KB with the envelope. A
# larger body would be decoded on the event loop, outside of the budget for reviews.
MAX_BODY_BYTES = 64 * 1024


def create_next_app(intake: Intake) -> ASGIApp:
    """Return the application of the next port."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != f"/{NEXT_PATH}":
            await plain(send, 404, f"only /{NEXT_PATH} is answered here", _LAST)
            return
        if scope["method"] != "POST":
            await plain(send, 405, "only POST is answered here", (b"allow", b"POST"), _LAST)
            return
        try:
            with intake.upload(carrier_of(scope)) as upload:
                body = await read_body(scope, receive, upload, budget(scope["query_string"]), MAX_BODY_BYTES)
                await answer(send, 200, _answered(body, scope["state"][SHOWN]), JSON, _LAST)
        except ClientGone:
            return
        except ReviewError as error:
            await plain(send, 400, str(error), _LAST)
        except TooLarge as error:
            await plain(send, 413, str(error))
        except Overloaded as error:
            await plain(send, 503, str(error), _LAST)
        except DeadlineExceeded as error:
            await plain(send, 504, str(error))

    return application


def _answered(body: bytes, shown: str) -> bytes:
    api_version, request = read_review(body)
    return write_review(api_version, request, Verdict(notes=(f"{NEXT_WARNING}{shown}",)))
