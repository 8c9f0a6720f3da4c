"""The backends of isandbox, one module or folder each. Import one by its module; the factory does it by name."""
