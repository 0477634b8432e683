"""Claims on trial: which number survives which transformation, and which of the answers are theorems."""
