"""A study of seconds on an embedded data set, and what of its rows must not change."""

#: Columns that differ from run to run.
VOLATILE = ["seconds", "peak_megabytes", "finished"]


def study_text(*methods, rules=("clean",)):
    """Return a study file with two trials of these methods, which choose between two learning rates."""
    keys = "".join(f'[[method]]\nkey = "{key}"\n' for key in methods)
    quoted = ", ".join(f'"{rule}"' for rule in rules)
    return f"""
[study]
name = "tiny"
trials = 2
rules = [{quoted}]
[[data]]
sets = ["known-posterior"]
[common]
max_epochs = 2
batch_size = 64
grid = {{ learning_rate = [1e-3, 1e-2] }}
{keys}"""


def stable(frame):
    """Return rows without what differs from run to run."""
    return frame.drop(columns=VOLATILE).reset_index(drop=True)
