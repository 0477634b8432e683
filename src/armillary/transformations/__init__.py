"""Maps of a configuration that an audit applies: each says its group, what it does, and what undoes it."""
