"""Measures of similarity beside the maps: values, intervals, nulls, records."""
