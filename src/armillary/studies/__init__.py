"""Studies: all choices of one investigation, and the run that turns them into a record."""
