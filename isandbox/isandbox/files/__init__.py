"""Files of a sandbox, and on their way between it and the host: `Files`, and the pieces that it stands on."""
