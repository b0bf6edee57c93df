"""What there is to know of a generated network, measured and told: pages, pictures, comparisons."""
