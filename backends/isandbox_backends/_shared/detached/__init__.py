"""Sandboxes that outlive the process that made them, on the host's side."""
