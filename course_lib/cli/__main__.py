"""Run the command ``course`` as ``python -m course_lib.cli``."""

import sys

from course_lib.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
