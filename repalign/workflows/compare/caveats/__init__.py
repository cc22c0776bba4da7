"""What a reader of the numbers of one pair must know before believing them."""
