"""What each script says at its end: the size of its world, and a digest of its parameters."""

import hashlib
import os


def report(world, parameters):
    digest = hashlib.sha256()
    for p in parameters:
        p = p.full_tensor() if hasattr(p, "full_tensor") else p
        digest.update(p.detach().float().cpu().contiguous().numpy().tobytes())
    print(f"REPORT rank={os.environ['RANK']} world={world} digest={digest.hexdigest()[:12]}")
