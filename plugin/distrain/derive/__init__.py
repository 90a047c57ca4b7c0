"""What follows from the values: `helm distrain derive`."""
