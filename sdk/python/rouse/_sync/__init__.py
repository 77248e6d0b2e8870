# Made by test/support/print-python.ts from _async/__init__.py: change that file.
"""The asynchronous half, from which the synchronous one is made."""
