"""Credentials behind the KeyEncryption port, outside every sandbox. The port itself is not built yet."""
