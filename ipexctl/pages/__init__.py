"""HTML files for people: the frame of a page, its styles, and where it may be written."""
