"""Networks in Python: `load`, `compile`, `tune`, `verify`, which `cannery` itself offers."""
