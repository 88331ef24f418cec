"""The largest softmax probability over a box of ratings."""
