"""What every page is made of: document, tables, numbers."""
