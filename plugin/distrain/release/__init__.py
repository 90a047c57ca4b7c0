"""Install, upgrade and follow releases.

No other package changes a cluster, except that `progress.hostfile` annotates the launcher's pod after a rescale.
"""
