"""Tar archives: `reader` takes any bytes and accepts all or nothing, `writer` makes the same bytes of the same tree."""
