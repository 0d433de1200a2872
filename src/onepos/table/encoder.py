"""Turn the columns of a table into one numeric matrix."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from onepos._utils import storage
from onepos._utils.context import option
from onepos._utils.validation import all_or_nothing, short_indices, shorten
from onepos.exceptions import DataFileError
from onepos.table.columns import DateColumn, FittedColumn, FlagColumn, NumberColumn
from onepos.table.embedders import PictureEmbedder
from onepos.table.embedding import Embedded, assign
from onepos.table.judge import ColumnChoice, judge
from onepos.table.kinds import BOOLEAN, IMAGE, NUMBER, TEXT, Tally, as_list, named, require_columns
from onepos.table.measures import MeasureColumn
from onepos.table.words import BagColumn, CategoryColumn, TextColumn

#: The classes of columns in the order of their features; flags stand among the numbers.
COLUMNS: tuple[type[FittedColumn], ...] = (
    NumberColumn,
    FlagColumn,
    CategoryColumn,
    BagColumn,
    TextColumn,
    DateColumn,
    MeasureColumn,
)
#: The classes of columns that ``judge`` does not fit.
_PLAIN: dict[str, type[FittedColumn]] = {NUMBER: NumberColumn, BOOLEAN: FlagColumn, TEXT: TextColumn}
#: Weight of other columns beside text. A row of text has length one, so each of its words weighs less than a category.
_BESIDE_TEXT = 0.5


class ColumnEncoder:
    """Learn how the columns of a table become numbers, then do it to other tables.

    Numbers are standardised, gaps are the median. Of words, each value becomes a 0/1 column, or each frequent one if
    they are many; so do the parts of lists (``Chile, Peru``). Dates become place in the range of training, month and
    weekday; numbers with units (``93 min``) a number for each unit; texts tf-idf weights. Beside text, other columns
    are multiplied by ½. Columns that say nothing are left out, and ``left_out_`` says why. The features of a row depend
    on its own cells and the training only.

    Parameters
    ----------
    text : str or sequence of str
        Columns to take as text. Columns of sentences are taken as text without being named.
    categories : sequence of str
        Columns to take as categories although they hold numbers.
    drop : sequence of str
        Columns to leave out: identifiers, labels.
    max_categories : int
        Of a column of words with more distinct values only frequent values are used.
    max_values : int
        Most values of such a column that get a feature of their own. 0: leave such columns out.
    max_terms : int
        Words kept for each text column, the most frequent ones. 0: none, if the columns are embedded.
    image : str, optional
        Column with the names of picture files.
    embed : str, object with ``encode(list)``, or a list of two, optional
        What turns texts into vectors, which stand beside the tf-idf weights, and what turns pictures into vectors: the
        name or folder of a sentence-transformers model, the path of an ONNX file for pictures,
        ``package.module:Class``, or an ``Embedder``. Without one for pictures it is "efficientnet-lite0".
    image_folder : path
        The folder of all pictures, where relative names begin; default: the current folder.
    scores : sequence of str
        Columns of numbers that stand at the end as they are, with the mean in gaps; those that are missing are zeros.

    Attributes
    ----------
    kinds_ : dict
        Column used → "number", "boolean", "category", "values" (words with many distinct values), "list", "date",
        "measure" (numbers with units) or "text", in the order of the table.
    left_out_ : dict
        Column not used → why.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": [1.0, 3.0, None], "colour": ["red", "blue", "red"]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.transform(table).round(2)
    array([[-1.22,  0.  ,  1.  ],
           [ 1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ]], dtype=float32)
    >>> encoder.describe()["colour"]
    'category: 2 values → 2 features'
    """

    kinds_: dict[str, str]
    left_out_: dict[str, str]

    _stored: ClassVar[storage.Rules] = {
        "text": storage.List(storage.TEXT),
        "categories": storage.List(storage.TEXT),
        "drop": storage.List(storage.TEXT),
        "max_categories": storage.COUNT,
        "max_values": storage.COUNT,
        "max_terms": storage.COUNT,
        "image": storage.Maybe(storage.TEXT),
        "kinds_": storage.each(storage.one_of(IMAGE, *(kind for made in COLUMNS for kind in made.kinds))),
        "left_out_": storage.each(storage.TEXT),
        "_columns": storage.List(storage.Part(*COLUMNS)),
        "_embedded": storage.List(storage.Part(Embedded), most=2),
        "scores": storage.List(storage.TEXT),
        "score_means_": storage.each(storage.NUMBER),
    }

    def __init__(
        self,
        *,
        text: str | Sequence[str] = (),
        categories: Sequence[str] = (),
        drop: Sequence[str] = (),
        max_categories: int = 100,
        max_values: int = 5_000,
        max_terms: int = 10_000,
        image: str | None = None,
        embed: Any = None,
        image_folder: str | Path = "",
        scores: Sequence[str] = (),
    ) -> None:
        self.text, self.categories, self.drop = as_list(text), as_list(categories), as_list(drop)
        self.max_categories, self.max_values, self.max_terms = max_categories, max_values, max_terms
        self.image, self.embed, self.image_folder = image, embed, image_folder
        self.scores = list(scores)
        self.decimals: Collection[str] = ()

    @all_or_nothing
    def fit(self, frame: pd.DataFrame, *, decimals: Collection[str] = ()) -> Self:
        """Learn from the training rows; the columns of ``decimals`` are known to have decimal points."""
        frame = named(frame)
        self.decimals = decimals
        self._check_names(frame)
        present = [name for name in self.scores if name in frame.columns]
        self.score_means_ = {name: _mean_score(frame[name]) for name in present}
        taken = {*self.drop, *self.scores}
        choices = {str(name): judge(column, self) for name, column in frame.items() if name not in taken}
        self.kinds_ = {name: choice.kind for name, choice in choices.items() if not choice.reason}
        self.left_out_ = {name: choice.reason for name, choice in choices.items() if choice.reason}
        if not self.kinds_:
            why = "; ".join(f"{name!r} {reason}" for name, reason in list(self.left_out_.items())[:3])
            raise DataFileError(
                f"no column is left to learn from{f' ({why})' if why else ''}. A column named as text is always used."
            )
        columns = [choices[name].part or _PLAIN[kind].fit(frame[name], self) for name, kind in self._with_columns()]
        self._columns = sorted(filter(None, columns), key=lambda column: max(1, COLUMNS.index(type(column))))
        columns_of = {False: self._of(TEXT), True: self._of(IMAGE)}
        embedders = assign(self.embed, text=columns_of[False], image=self.image)
        if self.image is not None:
            embedders.setdefault(True, PictureEmbedder())
        self._embedded = [
            Embedded(columns_of[pictures], one, pictures=pictures, folder=self.image_folder).fit(frame)
            for pictures, one in sorted(embedders.items())
        ]
        # Of several texts, words of one weigh about what those of others do.
        lengths = {column.name: column.length for column in self._columns if isinstance(column, TextColumn)}
        for column in self._columns:
            column.weight = _BESIDE_TEXT if lengths else 1.0
            if column.name in lengths:
                column.weight = float(np.sqrt(lengths[column.name] / max(lengths.values())))
        return self

    def _check_names(self, frame: pd.DataFrame) -> None:
        """Raise DataFileError if a column that the user names is not there, or is named as two things."""
        image = [self.image] if self.image else []
        roles = {"text": self.text, "image": image, "categories": self.categories, "drop": self.drop}
        for what, names in roles.items():
            require_columns(frame, names, what)
        for what, names in (("image", image), ("text", self.text)):
            twice = [name for name in names if sum(name in others for others in roles.values()) > 1]
            if twice:
                raise DataFileError(f"column {twice[0]!r} is named as {what} and as something else. Name it once.")

    @property
    def embedders_(self) -> list[str]:
        """Names of the embedders used."""
        return [one.name for one in self._embedded]

    def use(self, embed: Any, image_folder: str | Path) -> None:
        """Set the folder of pictures, and embedders that a stored model does not find by their names."""
        embedders = assign(embed, text=self._of(TEXT), image=self.image)
        for one in self._embedded:
            one.folder = Path(image_folder)
            if one.pictures in embedders:
                one.use(embedders.pop(one.pictures))
        for pictures in embedders:
            what = "pictures" if pictures else "texts"
            raise ValueError(f"the model was trained without an embedder of {what}: leave {option('embed')} out.")

    def transform(self, frame: pd.DataFrame, tally: Tally | None = None) -> Any:
        """Return float32 features: an ndarray, or CSR if there are texts, lists or words with many values.

        ``frame`` has every column used in training, in any order; others are ignored. ``tally`` counts what was filled
        in and what was not recognised.
        """
        frame, tally = named(frame), Tally() if tally is None else tally
        missing = [name for name in (*self.kinds_, *self.score_means_) if name not in frame.columns]
        if missing:
            what = f"column{'s' if len(missing) > 1 else ''} {shorten(map(repr, missing), 5)}"
            raise DataFileError(f"the model needs the {what}, which the data lack; they have {shorten(frame.columns)}.")
        blocks = [column.weight * column.transform(frame[column.name], tally) for column in self._columns]
        blocks += [one.transform(frame, tally) for one in self._embedded]
        if self.scores:
            blocks.append(self._scores_of(frame, tally))
        if any(sparse.issparse(block) for block in blocks):
            return short_indices(sparse.hstack([sparse.csr_array(block) for block in blocks], format="csr"))
        return np.ascontiguousarray(np.hstack(blocks))

    def _scores_of(self, frame: pd.DataFrame, tally: Tally) -> NDArray[np.float32]:
        """Return the scores of the labels; a gap is the mean of training, and a column that is not there zero."""
        values = np.zeros((len(frame), len(self.scores)), dtype=np.float32)
        for place, name in enumerate(self.scores):
            if name in self.score_means_:
                scores = _numbers(frame[name])
                tally.count(name, scores.isna(), "missing, filled with the mean score")
                values[:, place] = scores.fillna(self.score_means_[name])
        return values

    def describe(self) -> dict[str, str]:
        """Return for each column in one line what it became; those that are left out first, with the reason."""
        columns = {column.name: column for column in self._columns}
        choices = {name: ColumnChoice(reason=reason) for name, reason in self.left_out_.items()}
        choices |= {name: ColumnChoice(kind, columns.get(name)) for name, kind in self.kinds_.items()}
        return {name: choice.describe() for name, choice in choices.items()}

    @property
    def n_features_(self) -> int:
        """Number of columns of the matrix."""
        parts: list[FittedColumn | Embedded] = [*self._columns, *self._embedded]
        return sum(part.n_features for part in parts) + len(self.scores)

    @property
    def words_(self) -> list[str]:
        """Columns that must be read as text, whatever they look like."""
        return [name for name, kind in self.kinds_.items() if kind != NUMBER]

    def _of(self, kind: str) -> list[str]:
        return [name for name, other in self.kinds_.items() if other == kind]

    def _with_columns(self) -> list[tuple[str, str]]:
        """Return name and kind of the columns that are not only embedded."""
        return [pair for pair in self.kinds_.items() if pair[1] != IMAGE and (pair[1] != TEXT or self.max_terms)]

    @classmethod
    def _from_stored(cls, fields: dict[str, Any]) -> Self:
        made = cls()
        made.__dict__.update(fields)
        columns = sorted((column.name, column.kind) for column in made._columns)
        if columns != sorted(made._with_columns()):
            raise ValueError(f"columns must be those of kinds_, {', '.join(made.kinds_)[:80]}, each once")
        for one in made._embedded:
            names = made._of(IMAGE if one.pictures else TEXT)
            if one.columns != names or not names:
                raise ValueError(f"an embedder must have the columns {', '.join(names)[:80]}, not {one.columns}")
        made.embed = [one.name for one in made._embedded if not one.own] or None
        return made


def _numbers(column: "pd.Series[Any]") -> "pd.Series[float]":
    """Return the numbers of a column; what is no finite number is missing."""
    return pd.to_numeric(column, errors="coerce").astype(np.float64).replace([np.inf, -np.inf], np.nan)


def _mean_score(column: "pd.Series[Any]") -> float:
    """Return the mean of a column of scores; 0 if there are none."""
    scores = _numbers(column)
    return float(scores.mean()) if scores.notna().any() else 0.0
