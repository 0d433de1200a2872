"""Whom to cite for each data set."""

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
