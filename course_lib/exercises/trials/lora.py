"""Chapter 20 has no exercise that is checked by trials."""

EXERCISES = ()
