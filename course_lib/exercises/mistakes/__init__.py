"""The mistakes that people make in every exported definition, one room per chapter."""
