"""Reimplement kube-scheduler's filter plugins, each in a module with the plugin's name."""
