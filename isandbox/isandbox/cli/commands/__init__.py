"""The commands as click sees them: options and help, one module each. What a command does is imported when it is called."""
