"""Validate a job's objects as the API server does before it stores them. Each module validates one subject.

The rules and their words come from Kubernetes v1.34.4: pkg/apis/core/validation, pkg/apis/batch/validation,
pkg/apis/apps/validation, and apimachinery's pkg/api/validation. Every function yields messages that begin with the
field's path.
"""
