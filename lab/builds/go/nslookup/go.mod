module distrain.dev/lab/nslookup

go 1.25.0
