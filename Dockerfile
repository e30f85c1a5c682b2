# The service as an image: Python, the locked dependencies and the wheel. No pip, no build tool, no root.
#
#   docker build --build-arg BASE=python:3.13-slim@sha256:... --build-arg VERSION=0.16.0 \
#       --build-arg REVISION="$(git rev-parse HEAD)" --tag rollcall .
#   docker run --read-only --publish 8443:8443 --volume "$PWD/etc:/etc/rollcall:ro" rollcall
#
# BASE is an image with Python under /usr/local. Name it by the digest that your registry shows for it: a tag may be
# another image tomorrow. scripts/test-image builds and runs this file without a container engine.

ARG BASE=python:3.13-slim
FROM ${BASE} AS builder
WORKDIR /src

# The virtual environment is made where it will be used, since its scripts hold absolute paths. The builder's own pip
# fills it, so that it never has one.
RUN python -m venv --without-pip /opt/rollcall
COPY requirements.lock requirements-build.lock ./
RUN python -m pip --python /opt/rollcall/bin/python install \
        --no-cache-dir --require-hashes --only-binary :all: --requirement requirements.lock \
 && python -m pip install \
        --no-cache-dir --require-hashes --only-binary :all: --requirement requirements-build.lock

# Sources come last: a change of code leaves the layers above as they are.
COPY pyproject.toml README.md LICENSE ./
COPY webhook webhook
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/rollcall/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl

# Of the kubernetes package only the reader of kubeconfigs is used. It imports the rest on demand, which is half of the
# image: the typed clients, and all of them once more for asyncio.
RUN cd /opt/rollcall/lib/python3*/site-packages/kubernetes && rm -r aio client/api \
 && find client/models -type f ! -name '__init__.*' -delete


FROM ${BASE}
ARG VERSION=unversioned
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rollcall" \
      org.opencontainers.image.description="Gang-scheduling admission for Kubernetes: a gang starts as a whole, or not at all." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# The base image's pip, and the copy of it that ensurepip keeps, have no use at run time.
RUN python -m pip uninstall --yes --root-user-action ignore pip \
 && rm -rf /usr/local/lib/python3*/ensurepip

COPY --from=builder /opt/rollcall /opt/rollcall

# Bytecode was compiled by pip in the builder; the root file system may be read-only.
ENV PATH="/opt/rollcall/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, so that runAsNonRoot can be verified without reading /etc/passwd.
USER 65532:65532
# Calls, the next certificate, health and metrics of the server, and those of the reconciler.
EXPOSE 8443 8444 8081 8080
ENTRYPOINT ["rollcall"]
CMD ["serve", "--config", "/etc/rollcall/configuration.yaml", "--cert", "/etc/rollcall/tls/tls.crt", "--key", "/etc/rollcall/tls/tls.key"]
