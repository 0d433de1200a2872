"""Texts that must be shown as text on every page."""

import numpy as np
import pandas as pd

from onepos.pages.review import write_review

#: Each would do something if it were taken for markup, script, style, an address or a template. No more than seventeen:
#: a page shows twenty suggestions, and a test adds three labels.
INJECTIONS = [
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "</title></style></textarea><img src=http://127.0.0.1:9/x onerror='window.hacked=1'>",
    "\"><svg onload=window.hacked=1><a href='javascript:window.hacked=1'>",
    "' autofocus onfocus='window.hacked=1' x='",
    '"><iframe srcdoc="<script>parent.hacked = 1</script>">',
    "<!--<script>window.hacked=1//--><base href=http://127.0.0.1:9/>",
    "<style>@import 'http://127.0.0.1:9/x';</style><link rel=stylesheet href=http://127.0.0.1:9/x>",
    "</title></style><style>body { display: none }</style>",
    "]]></svg><math><mtext><img src=x onerror=window.hacked=1>",
    "javascript:window.hacked=1",
    "{{ 7 * 7 }}{% raw %}${window.hacked = 1}",
    "';window.hacked=1;//",
    "a\u2028window.hacked = 1\u2029b & &lt;b&gt; \\u003cb\\u003e",
    "&amp; \u202e backwards \ufeff",
    '=1+1,"quoted"\r\nsecond line',
]


def write_hostile_review(path):
    """Write a review page with these texts in every place that takes one."""
    n = len(INJECTIONS)
    return write_review(
        path,
        ids=INJECTIONS,
        observed=INJECTIONS,
        labels=INJECTIONS,
        probabilities=np.linspace(0.99, 0.02, n * n).reshape(n, n),
        texts=INJECTIONS,
        features=pd.DataFrame([INJECTIONS] * n, columns=INJECTIONS),
        shown=INJECTIONS,
        title=INJECTIONS[1],
    )
