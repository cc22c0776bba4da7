"""Images whose factors are known: data sets in their own files, or the project's sprites."""
