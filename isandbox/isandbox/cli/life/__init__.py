"""The commands about sandboxes that stay: what each does once its options are parsed.

`keys`, `terminal` and `session` connect the user's terminal with a command's; `streams` does the same for pipes; `ids` finds the
sandbox that is meant.
"""
