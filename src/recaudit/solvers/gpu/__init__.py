"""What runs on a GPU in kernels of our own."""
