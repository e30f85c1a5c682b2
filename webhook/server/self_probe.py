"""The self-probe: whether our own TLS port answers, with the certificate that it should show.

A server that listens may still have a certificate that nobody can be shown, or a port that somebody else has. Only what
a client sees tells. Once seen, a port is believed until several tries in a row have failed: a machine that is busy, and
a probe that is, must not take a server out of service.
"""

from __future__ import annotations

import asyncio
import ssl

from webhook.network.client_tls import looking
from webhook.server.state import ServerState
from webhook.telemetry.logs import log

# A try costs a handshake, a millisecond or two.
EVERY_SECONDS = 10.0
# While it is not seen, nobody is sent here.
UNSEEN_SECONDS = 0.5
# A handshake takes milliseconds; on a machine that is out of breath, a second or two.
TRY_SECONDS = 5.0
# Half a minute of silence, and no accident.
TRIES = 3

NOT_YET = "own port: not seen to answer yet"


class SelfProbe:
    """Asks the port at `address`, and keeps `state.unseen`."""

    def __init__(self, state: ServerState, address: tuple[str, int], *, client_ca: bool) -> None:
        """With `client_ca` the port asks for a certificate that we have none of: then the handshake is all we see."""
        self._state = state
        self._host, self._port = address
        self._handshake_alone = client_ca
        self._failed = 0
        self._told: str | None = None
        state.unseen = NOT_YET
        # What is shown is compared with the one that was loaded; whom others believe is not our business.
        self._context = looking()
        # Here the server's certificate is seen, and the handshake done, before the client's is missed.
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(EVERY_SECONDS if self._state.unseen is None else UNSEEN_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Try once, where there is a certificate to be seen, and authorities to ask callers for theirs by."""
        if self._state.certificate is None or self._state.unguarded:
            self._state.unseen = NOT_YET
            return
        why = await self._try()
        if why is None:
            self._failed = 0
            self._told = self._state.unseen = None
            return
        self._failed += 1
        # Twice a second is too often to say the same; what it has come to is said once more.
        if why != self._told or self._failed == TRIES:
            log.warning("own port", why=why, tries=self._failed)
        self._told = why
        if self._state.unseen is not None or self._failed >= TRIES:
            self._state.unseen = f"own port: {why}"

    async def _try(self) -> str | None:
        """What is wrong with the port, or None."""
        before = self._state.certificate
        try:
            async with asyncio.timeout(TRY_SECONDS):
                shown, status = await self._ask()
        except TimeoutError:
            return f"no answer within {TRY_SECONDS:g} s"
        except OSError as error:
            return f"no answer: {str(error) or type(error).__name__}"
        # It may have been exchanged meanwhile.
        if shown not in {pair.leaf for pair in (before, self._state.certificate) if pair is not None}:
            return "another certificate is shown than the one that was loaded"
        if not status.startswith(b"HTTP/1.1 200 ") and not self._handshake_alone:
            return f"the answer is {status[:40]!r}"
        return None

    async def _ask(self) -> tuple[bytes | None, bytes]:
        """The certificate that is shown, and the first line of the answer to a question."""
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, server_hostname="localhost"
        )
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if self._handshake_alone:
                return shown, b""
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return shown, await reader.readline()
        finally:
            writer.transport.abort()
