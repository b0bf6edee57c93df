"""Keras models: HDF5 files, `.keras` archives."""
