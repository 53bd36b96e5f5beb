# The server. Two stages: the web client and the wheel, then a small image that runs them as an ordinary user.
FROM node:20-bookworm-slim AS client
WORKDIR /client
COPY agentforge/api/web/package.json agentforge/api/web/package-lock.json agentforge/api/web/.npmrc ./
RUN npm ci --no-audit --no-fund
COPY agentforge/api/web/ ./
RUN node build.mjs

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE hatch_build.py requirements.lock ./
COPY agentforge/ agentforge/
COPY --from=client /client/dist agentforge/api/web/dist
RUN pip install --no-cache-dir build==1.6.1 && python -m build --wheel --outdir /wheels

FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 agentforge \
 && install --directory --owner=agentforge --mode=0700 /data
COPY --from=wheel /wheels/ /wheels/
COPY requirements.lock /wheels/
RUN pip install --no-cache-dir --constraint /wheels/requirements.lock /wheels/*.whl && rm -r /wheels
USER agentforge
ENV AGENTFORGE_DATA_HOME=/data PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s CMD ["python", "-c", \
  "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/healthz', timeout=3)"]
ENTRYPOINT ["agentforge", "serve"]
CMD ["--host", "0.0.0.0", "--token-file", "/run/secrets/tokens"]
