"""Decision trees: ensembles of them, and the ways to walk through them."""
