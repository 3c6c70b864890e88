"""What two runs recorded, what a step costs, and what explains the difference in speed. Pure."""
