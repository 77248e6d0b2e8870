"""The asynchronous half, from which the synchronous one is made."""
