module distrain.dev/lab/pause

go 1.25.0
