"""`ipexctl migrate`: find uses of the discontinued Intel stack, and what replaces them."""
