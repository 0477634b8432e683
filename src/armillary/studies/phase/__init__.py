"""The presets of `armillary phase`, one file each, found rather than listed: a module here that holds a `PRESET`."""
