"""Tables and figures, made from files alone. No torch."""
