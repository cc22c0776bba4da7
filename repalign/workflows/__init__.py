"""One use case a module: plain arguments in, a frozen result out."""
