"""Judge the volumes of a job's pods: persistent volume claims, storage classes and CSI drivers."""
