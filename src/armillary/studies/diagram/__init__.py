"""Parameter diagrams: a grid of cells, a function that measures one of them, and the run that leaves a record."""
