"""How fast the layers and estimators are, beside torch's own.

    python -m benchmarks.speed                  (or: make bench)
    python -m benchmarks.speed --quick
    python -m benchmarks.speed --report FILE

``cases.py`` is the table of what is measured, ``measures.py`` says how. Both sides of a
comparison run in one process, in turns, and denormal numbers are flushed to zero for
both: they would slow torch down several times, wherever gradients vanish.
"""
