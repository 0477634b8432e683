"""Numbers of a configuration: a tensor `tokens dim` comes in, and where it came from stays unknown."""
