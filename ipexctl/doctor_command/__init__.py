"""`ipexctl doctor`: the command, its report in all formats, and --fix, which runs a play."""
