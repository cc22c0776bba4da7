"""The maps between two representations: each is fitted from moments and is affine."""
