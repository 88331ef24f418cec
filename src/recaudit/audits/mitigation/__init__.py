"""What mitigation costs and gives, in the eyes of all audits."""
