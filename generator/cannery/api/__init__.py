"""Networks in Python: `load`, `compile`, `tune`, `verify` and `report`, as offered by `cannery`."""
