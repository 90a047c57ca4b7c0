"""Reimplement the API server's admission plugins that change or refuse pods, each in its own module."""
