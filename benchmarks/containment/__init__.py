"""The containment probes against other sandboxes: what does each of them hold, with the same questions put to all?"""
