"""Right answers in other styles than the course's, one room per chapter."""
