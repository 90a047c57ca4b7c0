"""Plan and make changes of releases, for the commands `install`, `upgrade` and `rescale`."""
