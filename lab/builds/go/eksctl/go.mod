// eksctl's schema of a ClusterConfig, which the tests of `helm distrain cluster` hold its file to.
module distrain.dev/lab/eksctl

go 1.25.0

require github.com/weaveworks/eksctl v0.215.0
