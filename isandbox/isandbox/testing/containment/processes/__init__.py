"""Group B: processes, signals, tracing, namespaces and the kernel's calls."""
