"""The table of data sets: the paper's twelve, and three that carry its labels with other features."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from onepos.datasets._sources import SOURCES, DataSetEntry

_TAGPROP = "; features: Guillaumin, Mensink, Verbeek, Schmid: TagProp. ICCV 2009"
_IAPRTC12 = "Grubinger, Clough, Müller, Deselaers: The IAPR TC-12 benchmark. OntoImage 2006"
_ESPGAME = "von Ahn, Dabbish: Labeling images with a computer game. CHI 2004"
_MIRFLICKR = "Huiskes, Lew: The MIR Flickr retrieval evaluation. ACM MIR 2008"

CITATIONS: dict[str, str] = {
    "CAL500": (
        "Turnbull, Barrington, Torres, Lanckriet: Semantic annotation and retrieval of music and sound "
        "effects. IEEE Transactions on Audio, Speech and Language Processing 16(2), 2008"
    ),
    "image": ("Zhang, Zhou: ML-KNN: a lazy learning approach to multi-label learning. Pattern Recognition 40(7), 2007"),
    "scene": ("Boutell, Luo, Shen, Brown: Learning multi-label scene classification. Pattern Recognition 37(9), 2004"),
    "yeast": "Elisseeff, Weston: A kernel method for multi-labelled classification. NIPS 2001",
    "corel5k": "Duygulu, Barnard, de Freitas, Forsyth: Object recognition as machine translation. ECCV 2002",
    "rcv1-s1": (
        "Lewis, Yang, Rose, Li: RCV1: a new benchmark collection for text categorization research. JMLR 5, 2004"
    ),
    "corel16k-s1": ("Barnard, Duygulu, Forsyth, de Freitas, Blei, Jordan: Matching words and pictures. JMLR 3, 2003"),
    "delicious": (
        "Tsoumakas, Katakis, Vlahavas: Effective and efficient multilabel classification in domains with "
        "large number of labels. ECML/PKDD workshop on mining multidimensional data, 2008"
    ),
    "tmc2007": (
        "Srivastava, Zane-Ulman: Discovering recurring anomalies in text reports regarding complex space "
        "systems. IEEE Aerospace Conference 2005"
    ),
    "iaprtc12": _IAPRTC12,
    "iaprtc12-hue": _IAPRTC12 + _TAGPROP,
    "espgame": _ESPGAME,
    "espgame-hue": _ESPGAME + _TAGPROP,
    "mirflickr": _MIRFLICKR,
    "mirflickr-tags": _MIRFLICKR,
}


_NOT_COMPARABLE = "never compare results with the paper's"
_AUTHORS_RELEASE = (
    "The paper's authors release it in the data folder that the README of https://github.com/palm-ml/smile "
    "links to (a MATLAB file with the variables X and Y)."
)


def _public(
    name: str,
    instances: int,
    features: int,
    labels: int,
    cardinality: float,
    feature_sum: float,
    *,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> DataSetEntry:
    """Complete the entry of a set whose files are known, down to their checksums."""
    return DataSetEntry(
        name=name,
        instances=instances,
        features=features,
        labels=labels,
        cardinality=cardinality,
        feature_sum=feature_sum,
        **{
            "files": SOURCES[name],
            "citation": CITATIONS[name],
            "options": MappingProxyType(dict(options or {})),
            **more,
        },
    )


def _supplied(name: str, instances: int, labels: int, cardinality: float, unlabelled: int) -> DataSetEntry:
    """Describe a set whose features (1000-d, in the paper) are in no public repository."""
    return DataSetEntry(
        name,
        instances,
        1000,
        labels,
        cardinality,
        rows_without_label=unlabelled,
        supplied=(f"{name}/{name}.npz", f"{name}/{name}.mat"),
        obtain=_AUTHORS_RELEASE,
        note="the paper's 1000-d features: no direct source, you put the file into the cache folder",
        citation=CITATIONS[name],
    )


def _mat(features: Any, labels: Any, orientation: str = "rows") -> dict[str, Any]:
    return {"features": features, "labels": labels, "orientation": orientation}


# name, instances, features, labels, cardinality, feature sum
_ENTRIES = (
    _public("CAL500", 502, 68, 174, 26.0438, -17512.686, note="columns on very uneven scales"),
    _public("image", 2000, 294, 5, 1.236, 155584.093, options={"labels": 5}, note="training then test file"),
    _public("scene", 2407, 294, 6, 1.074, 218148.68, note="training then test file"),
    _public("yeast", 2417, 103, 14, 4.2371, 15.373, note="labels in the ARFF file's order, Class1 … Class14"),
    _public("corel5k", 5000, 499, 374, 3.522, 41351.0, sparse=True, note="binary features"),
    _public(
        *("rcv1-s1", 6000, 944, 101, 2.8797, 303360.0),
        options=_mat("data", "target"),
        sparse=True,
        note="binary features: the 944 with the highest document frequency",
    ),
    _public(
        *("corel16k-s1", 13766, 500, 153, 2.8587, 115815.0),
        options=_mat("data", "target", "columns"),
        sparse=True,
        note="binary features",
    ),
    _public(
        *("delicious", 16105, 500, 983, 19.02, 294614.0),
        rows_without_label=14,
        sparse=True,
        note="binary features; without the 14 unlabelled rows 16091 remain, the count in the authors' code",
    ),
    _supplied("iaprtc12", 19627, 291, 5.7187, 0),
    _supplied("espgame", 20770, 268, 4.6859, 2),
    _supplied("mirflickr", 25000, 38, 4.637, 419),
    _public(
        *("tmc2007", 28596, 981, 22, 2.1579, 2448667.0),
        options=_mat(("X", "Xt"), ("Y", "Yt")),
        sparse=True,
        note="binary features: the 981 of 49060 with the highest document frequency, selected at the source",
    ),
    _public(
        *("iaprtc12-hue", 19627, 100, 291, 5.7187, 43334180.0),
        options=_mat("X_all", "Y_all"),
        matches_paper=False,
        note=f"the paper's labels, a 100-d hue histogram instead of its 1000-d features: {_NOT_COMPARABLE}",
    ),
    _public(
        *("espgame-hue", 20770, 100, 268, 4.6859, 6140121.0),
        rows_without_label=2,
        options=_mat("X_all", "Y_all"),
        matches_paper=False,
        note=f"the paper's labels, a 100-d hue histogram instead of its 1000-d features: {_NOT_COMPARABLE}",
    ),
    _public(
        *("mirflickr-tags", 20015, 1386, 38, 4.7349, 92808.0),
        matches_paper=False,
        sparse=True,
        obtain=(
            "It was built for onepos by joining two public lists on the image id (labels: "
            "swuxyj/DeepHash-pytorch, user tags: louisfanhz/VTMUCH); the result has no public address."
        ),
        note=f"20015 of 25000 rows, user tags instead of the paper's 1000-d features: {_NOT_COMPARABLE}",
    ),
)

REGISTRY: Mapping[str, DataSetEntry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def get_entry(name: str) -> DataSetEntry:
    """Return the entry of a data set, the name in any case; an unknown name lists the known ones."""
    found = next((entry for key, entry in REGISTRY.items() if key.lower() == str(name).lower()), None)
    if found is None:
        raise ValueError(f"no data set is called {name!r}; known: {', '.join(REGISTRY)}.")
    return found
