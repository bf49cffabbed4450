"""Build and open the learner's edition, and run its cells."""
