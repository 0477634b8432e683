"""What must come out: closed forms and quadratures that judge the simulator and never import it."""
