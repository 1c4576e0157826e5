# A service for the model folder that is mounted at /model; docs/serving.md has the commands.
FROM python:3.11-slim AS build
# Where pip finds a smaller build of torch, for whoever has one.
ARG PIP_EXTRA_INDEX_URL
WORKDIR /lampnet
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src src
RUN python -m venv /opt/lampnet \
    && /opt/lampnet/bin/pip install --no-cache-dir --constraint requirements.lock ".[serve,molecules,images]"

FROM python:3.11-slim
COPY --from=build /opt/lampnet /opt/lampnet
RUN useradd --system --uid 10001 --no-create-home lampnet
USER 10001
ENV PATH=/opt/lampnet/bin:$PATH OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=9)"]
ENTRYPOINT ["lampnet", "serve", "/model", "--host", "0.0.0.0"]
