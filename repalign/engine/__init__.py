"""Run independent calls: in this process, in several, or on Ray; progress and the cache."""
