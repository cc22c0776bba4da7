"""Independent component analysis of one representation, and matching two of them."""
