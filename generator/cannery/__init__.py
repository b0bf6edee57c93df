"""Cannery: trained neural networks as C static libraries, made for one network and one processor."""

__version__ = "0.1.0"
