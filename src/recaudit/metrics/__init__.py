"""What a metric is, how sure a number is, and by which groups it is told."""
