"""Group C: memory, disk, processes, output and time."""
