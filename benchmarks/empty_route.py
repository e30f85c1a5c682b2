"""What Rollcall is measured against: a FastAPI route that parses the same body with orjson and answers a constant."""

from __future__ import annotations

import sys

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()
_ANSWER = orjson.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "00000000-0000-4000-8000-000000000000", "allowed": True},
    }
)


@app.post("/empty")
async def empty(request: Request) -> Response:
    orjson.loads(await request.body())
    return Response(_ANSWER, media_type="application/json")


if __name__ == "__main__":
    port, certificate, key = sys.argv[1:]
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_keep_alive=120,
        lifespan="off",
    )
