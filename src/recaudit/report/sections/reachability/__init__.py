"""What users can reach: the pairs of the audit, its charts, what is found, and the section."""
