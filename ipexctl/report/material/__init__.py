"""What hosts recorded of a run, as values, and the curves that charts of it show. Pure."""
