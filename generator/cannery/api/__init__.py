"""Networks in Python: `load`, `compile`, `tune`, `verify`, `report`, which `cannery` offers."""
