# PyTorch 2.9 and Horovod 0.28 over Open MPI, with the trainer, and distrain for checks inside a cluster. Built by docker
# (BuildKit) and by buildah, from the repository's root:
#
#   docker build -f trainer/pytorch.Dockerfile -t REGISTRY/distrain/pytorch:0.1.0 \
#       --build-arg BASE_IMAGE=debian:bookworm-slim .
#
# For GPUs add --build-arg ACCELERATOR=cuda and an image that compiles Horovod with nvcc and NCCL's headers, such as
# BASE_IMAGE=nvidia/cuda:12.8.1-devel-ubuntu22.04, with RUNTIME_IMAGE=nvidia/cuda:12.8.1-runtime-ubuntu22.04. The cuda
# variant was written by the books and never built: no GPU was at hand.
#
# Where the network re-signs TLS, pip needs its CA bundle: --secret id=ca-bundle,src=/etc/ssl/certs/ca-certificates.crt.
# apt needs none, as Debian's and Ubuntu's sources are plain HTTP with signed contents.

ARG BASE_IMAGE=debian:bookworm-slim
ARG RUNTIME_IMAGE=${BASE_IMAGE}

FROM ${BASE_IMAGE} AS build
# Python 3.11 is Debian 12's own, and stands in Ubuntu 22.04's universe beside its 3.10.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        cmake g++ libopenmpi-dev make python3.11-dev python3.11-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3.11 -m venv /opt/venv
COPY trainer/pip-install /usr/local/bin/

# PyPI's torch for Linux is built for GPUs and brings CUDA: 6.8 GB, kept four times over by a machine that builds and runs
# the image. On CPUs nothing of it is called, so that image does without: 0.9 GB. One layer, so that no other holds it.
ARG ACCELERATOR=cpu
COPY trainer/pytorch_without_cuda.py trainer/requirements/pytorch-${ACCELERATOR}.txt /requirements/
RUN --mount=type=secret,id=ca-bundle \
    pip-install --no-deps -r /requirements/pytorch-${ACCELERATOR}.txt \
    && if [ "${ACCELERATOR}" = cpu ]; then /opt/venv/bin/python3 /requirements/pytorch_without_cuda.py; fi

# Horovod's extension fits only the PyTorch it was compiled against, and takes minutes: what may change without
# compiling it again is installed after it.
COPY trainer/horovod-install /usr/local/bin/
COPY trainer/requirements/horovod.txt /requirements/
RUN --mount=type=secret,id=ca-bundle horovod-install PYTORCH
COPY trainer/requirements/trainer.txt /requirements/
RUN --mount=type=secret,id=ca-bundle pip-install -r /requirements/trainer.txt
# What only compiling or measuring on a GPU needs, and the packages' own tests.
RUN cd /opt/venv/lib/python3.11/site-packages \
    && rm -rf torch/include torch/share torch/bin/protoc* nvidia/*/include \
        nvidia/cuda_cupti/lib/libnvperf_*.so nvidia/cuda_cupti/lib/libpcsamplingutil.so \
    && find . -type d -name tests -prune -exec rm -rf {} +

# distrain's packages are apart: no version of theirs must suit PyTorch's. Without pip's own programs, which would run
# with PyTorch's Python.
FROM build AS plugin
RUN python3.11 -m venv --without-pip /opt/plugin
COPY plugin/requirements.txt /requirements/plugin.txt
RUN --mount=type=secret,id=ca-bundle \
    pip-install --target /opt/plugin/lib/python3.11/site-packages -r /requirements/plugin.txt \
    && rm -rf /opt/plugin/lib/python3.11/site-packages/bin

FROM ${RUNTIME_IMAGE} AS environment
# Debian makes SSH host keys at installation; the same ones in every copy of an image would be nobody's secret.
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        ca-certificates openmpi-bin openssh-client openssh-server python3.11 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /etc/ssh/ssh_host_* \
    && groupadd --gid 1000 distrain \
    && useradd --uid 1000 --gid 1000 --create-home --shell /bin/sh distrain
COPY --from=build /opt/venv /opt/venv
COPY --from=plugin /opt/plugin /opt/plugin
COPY trainer/plugin/distrain /usr/local/bin/
COPY trainer/plugin/distrain.py /opt/venv/lib/python3.11/site-packages/
ENV PATH=/opt/venv/bin:${PATH}
# glibc copies large arrays past the processor's caches, in about 0.6 of the time. In a virtual machine it may take the
# caches for larger than they are, and never do so: say from which size, in bytes. Other processors ignore it.
ENV GLIBC_TUNABLES=glibc.cpu.x86_non_temporal_threshold=1572864
USER 1000:1000
WORKDIR /home/distrain

# Apart, so that a change of our code builds small layers alone.
FROM environment
COPY plugin/distrain /opt/plugin/lib/python3.11/site-packages/distrain
COPY trainer/distrain_trainer /opt/venv/lib/python3.11/site-packages/distrain_trainer
# A pod cannot keep what Python compiles: every start of every rank would compile it anew.
USER 0
RUN python3 -m compileall -q --invalidation-mode unchecked-hash \
        /opt/plugin/lib/python3.11/site-packages/distrain /opt/venv/lib/python3.11/site-packages/distrain_trainer
USER 1000:1000
# The licence of distrain itself; docs/images.md says what else the image holds.
COPY LICENSE /usr/share/doc/distrain/copyright
LABEL org.opencontainers.image.title="distrain's trainer for PyTorch" \
    org.opencontainers.image.licenses="Apache-2.0"
