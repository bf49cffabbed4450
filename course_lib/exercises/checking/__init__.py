"""Check an answer by trials and known mistakes."""
