# discreet: the API, gRPC, the workers and migrations in one image. `.ci/deployment_rehearsal.py` runs these very lines in
# a clean folder where no container engine is at hand, and then the parts as the user and with the folders named here.
#
#     docker build --tag discreet .
#
# Name the base image by digest in production (--build-arg BASE=python:3.11-slim-bookworm@sha256:…); its
# Python may be any of those in pyproject.toml.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /opt/source
RUN python -m venv /opt/discreet
COPY .ci/lock/runtime.txt .ci/lock/runtime.txt
RUN /opt/discreet/bin/python -m pip install --quiet --only-binary :all: --no-deps --require-hashes -r .ci/lock/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs docs
COPY migrations migrations
COPY service service
COPY clients/python clients/python
RUN /opt/discreet/bin/python -m pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir /opt/wheels ./clients/python . \
 && /opt/discreet/bin/python -m pip install --quiet --no-index --no-deps /opt/wheels/*.whl
# Kernels are compiled here, so that a worker with an empty state folder is ready in seconds.
RUN KERNELS=$(/opt/discreet/bin/python -c 'from discreet.private_files import KERNELS; print(KERNELS)') \
 && NUMBA_CACHE_DIR=$KERNELS /opt/discreet/bin/python -c 'from discreet.isolation import reading, solving; reading.warm_up(); solving.warm_up()' \
 && /opt/discreet/bin/python -m pip uninstall --quiet --yes hatchling editables pip

FROM ${BASE}
LABEL org.opencontainers.image.title="discreet" org.opencontainers.image.licenses="GPL-3.0-or-later"
RUN groupadd --gid 10001 discreet \
 && useradd --uid 10001 --gid discreet --no-create-home --home-dir /var/lib/discreet --shell /usr/sbin/nologin discreet \
 && install -d -o discreet -g discreet -m 0700 /var/lib/discreet
COPY --from=build /opt/discreet /opt/discreet
ENV PATH=/opt/discreet/bin:/usr/local/bin:/usr/bin:/bin HOME=/var/lib/discreet PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
ENV DISCREET_STATE=/var/lib/discreet DISCREET_CREDENTIALS=/run/secrets DISCREET_SECRETS_FILE=/run/secrets/secrets.json
# The root may be read-only: only the state folder and /tmp are written to.
VOLUME /var/lib/discreet
USER 10001:10001
WORKDIR /var/lib/discreet
EXPOSE 8080 8081 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 CMD ["discreet", "check", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["discreet"]
CMD ["api", "--host", "0.0.0.0", "--port", "8080"]
