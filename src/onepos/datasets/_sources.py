"""Where the files of the data sets are: repository, commit, path, size and sha256 of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

# What the registry knows about a data set: the record types.


_RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set, pinned to a commit and a checksum.

    Attributes
    ----------
    file : str
        Path below the cache folder and below a mirror, with ``/``.
    bytes : int
        Size; a download that grows beyond it is cut off.
    sha256 : str
    repository, commit, path : str or None
        Where GitHub keeps it; None for a file without a public source.
    mirrors : tuple of str
        Further complete URLs, tried after the repository.
    """

    file: str
    bytes: int
    sha256: str
    repository: str | None = None
    commit: str | None = None
    path: str | None = None
    mirrors: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Complete URLs in the order in which they are tried."""
        if self.repository is None or self.commit is None or self.path is None:
            return self.mirrors
        return (f"{_RAW}/{self.repository}/{self.commit}/{quote(self.path)}", *self.mirrors)


@dataclass(frozen=True)
class DataSetEntry:
    """One data set: its facts, its files and how to read them.

    Attributes
    ----------
    name : str
    instances, features, labels : int
        Rows (with or without a label), feature columns, label columns.
    cardinality : float
        Mean number of labels per row, over all rows.
    feature_sum : float or None
        Sum of all feature values, to tell this data set from another of the same shape.
    rows_without_label : int
        Rows that carry no label; ``load_dataset`` drops them.
    matches_paper : bool
        Whether this is the paper's data set, so that results may be compared with it.
    files : tuple of RemoteFile
        Data files, stacked in this order, and perhaps an XML file that names the labels.
    options : mapping
        Arguments of the reader.
    sparse : bool
        Whether features come as CSR: at most one entry in ten is not zero.
    supplied : tuple of str
        For a data set without a public file: names under which a user's copy is found, the first wins.
    obtain : str
        For such a data set: where to get it.
    note, citation, licence : str
    """

    name: str
    instances: int
    features: int
    labels: int
    cardinality: float
    feature_sum: float | None = None
    rows_without_label: int = 0
    matches_paper: bool = True
    files: tuple[RemoteFile, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    sparse: bool = False
    supplied: tuple[str, ...] = ()
    obtain: str = ""
    note: str = ""
    citation: str = ""
    licence: str = "no explicit licence at the source; cite the reference"


_MULAN = ("tsoumakas/mulan", "43f6389095ad71984264db4387a8074b22bc7d4a")
_BOOMER = ("mrapp-ke/Boomer", "fe3f6edd82bef77f13050b845482c70c2d07401e")
_MACRO_AUC = ("GuoqiangWoodrowWu/Macro-AUC-Theory", "dc5f675d8414d97601760503e81457f4a438148b")
_CHEN = ("ZesenChen/multi-label-dataset", "5f20611a8d70aa0de7eb6edf6cf568d271ed0043")
_RUCHI = (
    "ruchi-9/Handling-Tail-Labels-with-Data-Augmentation-and-Self-Training",
    "dc04f81cbf0a2e9029144efbd33ea8952e1ac37b",
)
_TNORM = ("Tnorm/nmf-based-label-space-factorization", "cbbfaba86b19f03470d3158287d6577ff02ef75a")

#: Data set → its files; several data files are stacked in this order.
SOURCES: dict[str, tuple[RemoteFile, ...]] = {
    "CAL500": (
        RemoteFile(
            "CAL500/cal500.arff",
            492857,
            "cfe6097ba5fd6e8584e54911ab9783dcab34e898446b7c9370c71d477eae56d3",
            *_MULAN,
            "data/multi-label/cal500/cal500.arff",
        ),
        RemoteFile(
            "CAL500/cal500.xml",
            7901,
            "877e128531268d7661faa3e44f7bb43cbcda829c0895e49879168775b192728c",
            *_MULAN,
            "data/multi-label/cal500/cal500.xml",
        ),
    ),
    "image": (
        RemoteFile(
            "image/image-train.arff",
            3935664,
            "26bdac46f5eda9aa44adf8496787242a5a9d3cd2c5fa284d36b9d5221e0b92b6",
            *_BOOMER,
            "data/image-train.arff",
        ),
        RemoteFile(
            "image/image-test.arff",
            1312245,
            "7ae850e486b4490b2fa55a06c0b67f2b5bf5406fbf9f2b80fc78acffa2066a26",
            *_BOOMER,
            "data/image-test.arff",
        ),
    ),
    "scene": (
        RemoteFile(
            "scene/scene-train.arff",
            3127968,
            "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d",
            *_MULAN,
            "data/multi-label/scene/scene-train.arff",
        ),
        RemoteFile(
            "scene/scene-test.arff",
            3090742,
            "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42",
            *_MULAN,
            "data/multi-label/scene/scene-test.arff",
        ),
        RemoteFile(
            "scene/scene.xml",
            285,
            "55d8b247b949ad5c52e5a73d8c6775ec6e5469ce9682465b45b333b68ee4bcc5",
            *_MULAN,
            "data/multi-label/scene/scene.xml",
        ),
    ),
    "yeast": (
        RemoteFile(
            "yeast/yeast.arff",
            2416688,
            "55c07a3b6ff885ae338fb6987a1d57f55572b29809922c2822c4885c61230dd7",
            *_MULAN,
            "data/multi-label/yeast/yeast.arff",
        ),
        RemoteFile(
            "yeast/yeast.xml",
            526,
            "c3056cc26444b5158b1588d1b73bec9c45429e10f0957ad085903423cb81f247",
            *_MULAN,
            "data/multi-label/yeast/yeast.xml",
        ),
    ),
    "corel5k": (
        RemoteFile(
            "corel5k/Corel5k-sparse.arff",
            377579,
            "12c06161d2367f919f6da912089a6c9180c115cfcefa37afacfdeb903930eb7e",
            *_MULAN,
            "data/multi-label/corel5k/Corel5k-sparse.arff",
        ),
        RemoteFile(
            "corel5k/Corel5k.xml",
            11222,
            "54ef6a6ccb7ca9b77524052b34b306d5d501661a5609b9d1cc7085b2b597679d",
            *_MULAN,
            "data/multi-label/corel5k/Corel5k.xml",
        ),
    ),
    "rcv1-s1": (
        RemoteFile(
            "rcv1-s1/rcv1subset1_top944.mat",
            379125,
            "3f00174382b745b3cfa44d53bd087e3052a698e0c9dc6e2a722a5668a545def8",
            *_MACRO_AUC,
            "Datasets/rcv1subset1_top944.mat",
        ),
    ),
    "corel16k-s1": (
        RemoteFile(
            "corel16k-s1/Corel16k001.mat",
            306455,
            "48e2d5f89bf0a558e1eb7b7eb07be138c287bd11eb6210933f4650ed86a3750f",
            *_CHEN,
            "Corel16k001.mat",
        ),
    ),
    "delicious": (
        RemoteFile(
            "delicious/delicious.arff",
            3773732,
            "b944de0bca910050c11d97eed57d17b073110ea3646a587f3d15d127cf581aab",
            *_MULAN,
            "data/multi-label/delicious/delicious.arff",
        ),
        RemoteFile(
            "delicious/delicious.xml",
            34303,
            "4e0c0f93c7d86a39b9fca4aaefaa00e9428f2c80277732dfbf03ca48e2c14da2",
            *_MULAN,
            "data/multi-label/delicious/delicious.xml",
        ),
    ),
    "tmc2007": (
        RemoteFile(
            "tmc2007/tmc2007.mat",
            3985211,
            "935b86d0bf176fb4720ecb09c27721f303311a92f7971c24f9eeca1e5b3a373e",
            *_RUCHI,
            "Datasets/tmc2007.mat",
        ),
    ),
    "iaprtc12-hue": (
        RemoteFile(
            "iaprtc12-hue/lear_DenseHue__iaprtc12.mat",
            1493360,
            "84e2e2e4e8a68cea119987d5b486cfcc244db51b07159fa93d5f517f42795887",
            *_TNORM,
            "Datasets/lear_DenseHue__iaprtc12.mat",
        ),
    ),
    "espgame-hue": (
        RemoteFile(
            "espgame-hue/lear_DenseHue__espgame.mat",
            847322,
            "e94d121e89ca855dbaf528efc1173c7b5254c497eee62641e1634338090b8f63",
            *_TNORM,
            "Datasets/lear_DenseHue__espgame.mat",
        ),
    ),
    "mirflickr-tags": (
        RemoteFile(
            "mirflickr-tags/mirflickr-tags.npz",
            293863,
            "799fd64b152edb1fc29910af7d173004e329d01f4efbacb614335475a6df9cbe",
        ),
    ),
}
