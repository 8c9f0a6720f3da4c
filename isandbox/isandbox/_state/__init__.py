"""What of a sandbox outlives the process that made it: whose things are, where detached sandboxes are kept, and their register.

`owner` names processes so that a later one can tell whether they are alive. `directory` is the one directory of this user's
state, `places` a sandbox's own directory in it, `register` the table of detached sandboxes, on `database`. Nothing here is
touched for an owned sandbox but `owner`. Nothing is imported with this package: each of them costs only who uses it.
"""
