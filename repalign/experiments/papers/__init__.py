"""The papers' experiments, a file each: settings, calls to the library, published numbers."""
