# PyTorch 2.9 with CUDA for PyTorchJobs on GPUs, from Debian and PyPI alone: PyTorch's wheels bring CUDA, cuDNN and NCCL,
# with kernels for sm_70 to sm_120. Without Horovod, Open MPI and sshd, which MPIJob and Plain need: pytorch.Dockerfile
# has them. Built from the repository's root:
#
#   docker build -f trainer/pytorch-cuda.Dockerfile -t REGISTRY/distrain/pytorch-cuda:0.1.0 .
#
# Where the network re-signs TLS, pip needs its CA bundle: --secret id=ca-bundle,src=/etc/ssl/certs/ca-certificates.crt.

ARG BASE_IMAGE=debian:bookworm-slim

# distrain's packages are separate, so that their versions need not suit PyTorch's.
FROM ${BASE_IMAGE} AS plugin
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3.11-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3.11 -m venv /opt/venv && python3.11 -m venv --without-pip /opt/plugin
COPY trainer/pip-install /usr/local/bin/
COPY plugin/requirements.txt /requirements/plugin.txt
RUN --mount=type=secret,id=ca-bundle \
    pip-install --target /opt/plugin/lib/python3.11/site-packages -r /requirements/plugin.txt \
    && rm -rf /opt/plugin/lib/python3.11/site-packages/bin

FROM ${BASE_IMAGE} AS environment
# torch.compile (trainer.extraArgs: [--compile]) compiles with gcc and Python's headers.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates gcc libc6-dev python3.11-dev python3.11-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && groupadd --gid 1000 distrain \
    && useradd --uid 1000 --gid 1000 --create-home --shell /bin/sh distrain
COPY trainer/pip-install /usr/local/bin/
COPY trainer/requirements/pytorch-cuda.txt trainer/requirements/trainer.txt /requirements/
# In this stage, and not copied from another: the packages have 7 GB, and a copy would need as much again.
RUN --mount=type=secret,id=ca-bundle \
    python3.11 -m venv /opt/venv \
    && pip-install --no-deps -r /requirements/pytorch-cuda.txt && pip-install -r /requirements/trainer.txt
COPY --from=plugin /opt/plugin /opt/plugin
COPY trainer/plugin/distrain /usr/local/bin/
COPY trainer/plugin/distrain.py /opt/venv/lib/python3.11/site-packages/
ENV PATH=/opt/venv/bin:${PATH}
USER 1000:1000
WORKDIR /home/distrain

# The code is in layers of its own, so that a change of it builds only these small layers.
FROM environment
COPY plugin/distrain /opt/plugin/lib/python3.11/site-packages/distrain
COPY trainer/distrain_trainer /opt/venv/lib/python3.11/site-packages/distrain_trainer
# A pod cannot store compiled Python code, so each start of each rank would compile it again.
USER 0
RUN python3 -m compileall -q --invalidation-mode unchecked-hash \
        /opt/plugin/lib/python3.11/site-packages/distrain /opt/venv/lib/python3.11/site-packages/distrain_trainer
USER 1000:1000
# The licence of distrain itself; docs/images.md says what else the image holds.
COPY LICENSE /usr/share/doc/distrain/copyright
LABEL org.opencontainers.image.title="distrain's trainer for PyTorch on GPUs" \
    org.opencontainers.image.licenses="Apache-2.0"
