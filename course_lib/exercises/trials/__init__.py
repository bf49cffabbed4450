"""What is asked of every exported definition, one room per chapter."""
