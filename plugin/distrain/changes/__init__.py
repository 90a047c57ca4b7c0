"""Plan and make the changes of releases that the commands `install`, `upgrade` and `rescale` ask for."""
