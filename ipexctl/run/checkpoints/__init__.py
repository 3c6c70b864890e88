"""`--checkpoints`, `--resume` and `ipexctl checkpoints`: list, fetch and lay out checkpoints."""
