"""One module for each chapter that has exercises: trials, known mistakes, correct answers."""
