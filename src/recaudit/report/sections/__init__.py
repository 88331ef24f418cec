"""What each audit shows: its charts and tables."""
