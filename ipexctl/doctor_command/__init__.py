"""`ipexctl doctor`: the command, its report as text, file or page, and --fix, which runs a play"""
