"""report: a run as one page, and what explains the speed of one run against another."""
