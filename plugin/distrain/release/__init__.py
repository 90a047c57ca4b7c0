"""Install, upgrade and follow releases.

Only this package changes a cluster, with one exception: after a rescale, `progress.hostfile` annotates the
launcher's pod.
"""
