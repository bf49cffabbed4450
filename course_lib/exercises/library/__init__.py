"""The learner's own package ``my_lib``, and their progress."""
