"""k, the expected number of positives, for methods that train towards it."""

from onepos._deadline import time_left
from onepos.cardinality import resolve_n_positives
from onepos.methods._context import Context
from onepos.methods._neighbor_agreement import estimate_n_positives


def expected_n_positives(given: float | str | None, context: Context, *, single_label: bool) -> tuple[float, str]:
    """Return k and where it came from: as ``resolve_n_positives``, or "estimated" if "estimate" was given.

    Without time to look for neighbours, "estimate" means the same as None.

    Parameters
    ----------
    given : float, "estimate" or None
        The user's ``n_positives``; "estimate" asks the agreement of nearest neighbours.
    context : Context
    single_label : bool
        True for a 1-D y, in which every row has one class.
    """
    if single_label or not isinstance(given, str) or context.rows.processes.agree(time_left() <= 0):
        number = None if isinstance(given, str) else given
        return resolve_n_positives(number, context.n_labels, context.full_validation, one_class=single_label)
    rows = context.rows
    index = rows.trainable.cpu().numpy()
    number = estimate_n_positives(context.graph.matrix[index], rows.observed.cpu().numpy()[index])
    return rows.processes.agree(number), "estimated"
