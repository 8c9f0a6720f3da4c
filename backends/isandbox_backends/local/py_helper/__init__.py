"""The helper in Python: a program of its own, started where the native helper (backends/helper) is missing.

It speaks the same protocol over the same descriptors, so that nothing on the host's side differs. It never imports the rest
of isandbox: it runs isolated (``python -I -S -B``), with the standard library and psutil only. It knows one mode, the
launcher without isolation; a plan that asks for anything else is refused.

Processes are the native helper's: one server, and for each command a keeper (keeper.py) that starts it, reaps what it
leaves behind and reports its end.
"""
