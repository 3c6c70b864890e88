"""Names and versions of datasets, and where files are cut. Pure."""
