"""The filter plugins of kube-scheduler, a module for each under the plugin's own name."""
