"""Turns float networks into integer ones, based on what their layers compute for samples."""
