"""JSON Schemas of ipexctl.toml and plays, for editors. tools/gen_docs.py writes them."""
