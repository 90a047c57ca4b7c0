# An image that holds what PyTorch's public one does: Python, pip, PyTorch, numpy and Pillow, and root as its user. Made of
# the layers of the trainer's environment, without anything of distrain, without MPI and SSH, and without what only the
# trainer needs. /wheels stands for a package index, which the lab's pods have none of.
ARG ENVIRONMENT
FROM ${ENVIRONMENT}
USER 0
RUN --mount=type=secret,id=ca-bundle \
    if [ -s /run/secrets/ca-bundle ]; then export PIP_CERT=/run/secrets/ca-bundle; fi \
    && pip list --format=freeze > /tmp/pins \
    && pip download --disable-pip-version-check --dest /wheels --constraint /tmp/pins boto3
RUN pip uninstall --yes boto3 botocore jmespath s3transfer python-dateutil prometheus-client tensorboardX horovod \
    && rm -rf /opt/plugin /usr/local/bin/distrain /opt/venv/lib/python3.11/site-packages/distrain.py \
        /usr/bin/mpirun /usr/bin/orterun /usr/bin/ssh /usr/sbin/sshd \
    && userdel distrain
WORKDIR /workspace
