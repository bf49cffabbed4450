"""Chapter 12 has no exercise that is checked by trials."""

EXERCISES = ()
