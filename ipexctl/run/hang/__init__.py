"""Why a run makes no progress: which rank hangs, where, and what the others wait for. Pure."""
