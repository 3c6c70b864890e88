"""Process the output of ranks: lines folded, metrics, progress. Pure."""
