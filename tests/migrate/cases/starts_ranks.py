import subprocess
import sys

subprocess.run(["mpirun", "-n", "4", "-ppn", "2", sys.executable, "worker.py", "--lr", "0.1"])
