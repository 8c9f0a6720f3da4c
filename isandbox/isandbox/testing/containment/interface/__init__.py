"""Group F: the port itself: paths, names, archives, environments, what comes back."""
