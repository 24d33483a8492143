# The image of the service: `serve` (API and scheduler) and `worker`, with the methods of this checkout.
#
#   docker build --tag aioanalysis .
#
# Without a package index: put the wheels of all dependencies (and of hatchling) into build/wheels first,
# and add --build-arg PIP_NO_INDEX=1. README.md, section "In containers", has the commands.
ARG BASE_IMAGE=python:3.12-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
COPY constraints.txt build/wheels/*.whl /wheels/
ARG PIP_NO_INDEX
# The versions that were tested, of what builds the wheel, too (newer pips have a variable of its own for that).
ENV PIP_CONSTRAINT=/wheels/constraints.txt PIP_BUILD_CONSTRAINT=/wheels/constraints.txt \
  PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
# The dependencies first, in a layer of their own: it stays while only our own code changes.
COPY pyproject.toml ./
RUN mkdir aioanalysis && touch README.md LICENSE aioanalysis/__init__.py \
  && python3 -m venv --without-pip /opt/aioanalysis \
  && python3 -m pip --python /opt/aioanalysis/bin/python install ".[identity]"
COPY README.md LICENSE ./
COPY aioanalysis aioanalysis
RUN python3 -m pip --python /opt/aioanalysis/bin/python install --no-deps --force-reinstall . \
  && python3 -m pip --python /opt/aioanalysis/bin/python check

FROM ${BASE_IMAGE}
RUN groupadd --gid 10001 aioanalysis \
  && useradd --uid 10001 --gid 10001 --no-log-init --no-create-home --home-dir /var/lib/aioanalysis aioanalysis \
  && install -d -o 10001 -g 10001 -m 0750 /var/lib/aioanalysis /etc/aioanalysis \
  && install -o 10001 -g 10001 -m 0600 /dev/null /etc/aioanalysis/keys
COPY --from=build /opt/aioanalysis /opt/aioanalysis
ENV PATH=/opt/aioanalysis/bin:$PATH \
  AIOANALYSIS_DATA_DIR=/var/lib/aioanalysis \
  AIOANALYSIS_HOST=0.0.0.0 \
  AIOANALYSIS_LOG_FORMAT=json \
  AIOANALYSIS_METHODS_DIR=/methods
USER 10001:10001
WORKDIR /var/lib/aioanalysis
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python3", "-m", "aioanalysis.healthcheck", "serve"]
COPY methods /methods
ENTRYPOINT ["aioanalysis"]
CMD ["serve"]
ARG REVISION
LABEL org.opencontainers.image.title=aioanalysis \
  org.opencontainers.image.description="The analysis service of a DNA-barcode workbench: API, scheduler and workers" \
  org.opencontainers.image.version=0.1.0 \
  org.opencontainers.image.revision=$REVISION \
  org.opencontainers.image.licenses=MIT
