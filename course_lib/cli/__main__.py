"""Run the command ``course`` as ``python -m course_lib.cli``."""

import sys

from course_lib.cli.main import main

sys.exit(main())
