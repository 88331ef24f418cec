"""Models that were made elsewhere: arrays, files, systems that can only be asked."""
