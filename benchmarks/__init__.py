"""What isandbox costs, beside its peers in the same run; see README.md."""
