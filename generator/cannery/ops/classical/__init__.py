"""What classical models compute beside trees: distances, and probabilities from pairs."""
