"""What the steps of a run that makes progress wait for, and what would shorten them."""
