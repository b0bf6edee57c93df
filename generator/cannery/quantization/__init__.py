"""Float networks become integer ones, by what their layers were seen to compute."""
