"""The admission plugins of the API server that refuse or change pods, a module for each."""
