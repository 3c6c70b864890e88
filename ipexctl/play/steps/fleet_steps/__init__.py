"""Steps that need all hosts: each calls the command of the same name."""
