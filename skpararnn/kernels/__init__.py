"""Loops over time on raw arrays, compiled; a folder for each kind of device."""
