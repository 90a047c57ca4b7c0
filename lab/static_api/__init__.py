"""An API server that serves a large, static cluster, for benchmarks and tests of reading one."""
