"""Write a first values file for `helm distrain init`."""
