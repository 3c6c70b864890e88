"""What ranks print: lines folded, metrics, progress. Pure."""
