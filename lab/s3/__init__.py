"""Run an S3 server, and a proxy in front of it that injects faults."""
