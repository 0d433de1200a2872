"""Rebuild every table and figure of the docs from the committed results files.

python studies/build.py            write what is out of step
python studies/build.py --check    write nothing; exit with 1 and name each file that is out of step
"""

import argparse
import sys
from pathlib import Path

from results_page.builder import make, out_of_step, write

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, name what is out of step")
    check = parser.parse_args(arguments).check
    made = make(root)
    wrong = out_of_step(made, root)
    if not check:
        write(made, root)
    for file in wrong:
        print(f"out of step: {file}" if check else f"rebuilt {file}")
    if not wrong:
        print("in step with the results files")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
