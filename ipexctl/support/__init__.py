"""`ipexctl support`: write a file about a problem that can be shown to others."""
