"""Fixtures that tests in several folders use."""

import pytest
from hypothesis import settings

from onepos.cli import main

# An example that is slow on a busy machine is no wrong result: timings live in benchmarks.
settings.register_profile("onepos", deadline=None)
settings.load_profile("onepos")


@pytest.fixture
def run(capsys):
    """Run a command in this process; returns exit code, standard output, standard error."""

    def run_command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run_command
