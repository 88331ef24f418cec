"""How far one user can move what another is recommended (paper 001)."""
