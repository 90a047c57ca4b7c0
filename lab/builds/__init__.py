"""What the lab builds, and keeps in the cache: Go programs, container images, the plugin's archive."""
