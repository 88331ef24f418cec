"""Folding: unrelated groups of users and items that overlap in a model's space (Xin et al. 2017, paper 002)."""
