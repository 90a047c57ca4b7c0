# An image as people have it today: root, an SSH server on port 22 with keys of its own, nothing of distrain inside.
ARG BASE_IMAGE=debian:bookworm-slim
FROM ${BASE_IMAGE}
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        openmpi-bin openssh-client openssh-server python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN ssh-keygen -A && sed -i 's/^#Port 22$/Port 22/' /etc/ssh/sshd_config
