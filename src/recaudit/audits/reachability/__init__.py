"""What users can get recommended by changing ratings (paper 000)."""
