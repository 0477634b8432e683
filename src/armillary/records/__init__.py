"""Records: what a run leaves behind, how it lies in its folder, what can be asked of it, and how it leaves."""
