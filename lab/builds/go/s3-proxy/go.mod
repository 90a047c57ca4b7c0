module distrain.dev/lab/s3-proxy

go 1.25.0
