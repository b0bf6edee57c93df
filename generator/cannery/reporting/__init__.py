"""Everything known about a generated network: pages, pictures, comparisons."""
