"""The label file's XML is parsed without the features of XML that are used for attacks."""

import pytest

from onepos.exceptions import DataFileError
from onepos_studies.datasets._arff import read_label_names

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol">'
    + "".join(f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(9))
    + ']><labels><label name="&j;"/></labels>'
)
OUTSIDE = '<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/hostname">]><labels><label name="a">&x;</label></labels>'


@pytest.mark.parametrize("text", [LAUGHS, OUTSIDE, LAUGHS.replace("DOCTYPE", "doctype"), "<!ENTITY x 'y'><labels/>"])
def test_document_types_and_entities_are_refused(tmp_path, text):
    path = tmp_path / "l.xml"
    path.write_text(text)
    with pytest.raises(DataFileError, match="not well-formed"):
        read_label_names(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp037"])
def test_no_encoding_hides_a_document_type(tmp_path, encoding):
    path = tmp_path / "l.xml"
    declaration = f'<?xml version="1.0" encoding="{encoding}"?>'
    rest = LAUGHS.partition("?>")[2]
    whole = (declaration + rest).encode(encoding)
    mixed = declaration.encode("ascii") + rest.encode(encoding)
    for content in (whole, mixed):
        path.write_bytes(content)
        with pytest.raises(DataFileError):
            read_label_names(path)


def test_names_in_document_order_with_namespace_and_nesting(tmp_path):
    path = tmp_path / "l.xml"
    path.write_text(
        '<?xml version="1.0" encoding="utf-8"?><labels xmlns="http://mulan.sourceforge.net/labels">'
        '<label name="b"><label name="a &amp; c"/></label><label name="ü"></label></labels>',
        encoding="utf-8",
    )
    assert read_label_names(path) == ("b", "a & c", "ü")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<labels><label name="a">', "not well-formed.*line 1"),
        ("<labels></labels>", "one or more <label name"),
        ("<labels><label/></labels>", "each with its name"),
        ('<html><label name="a"/></html>', "root element must be <labels>"),
        ('<labels><label name="a"/><label name="a"/></labels>', "label names must be distinct; 'a' come twice"),
        ("", "not well-formed"),
    ],
)
def test_broken_label_file(tmp_path, text, message):
    path = tmp_path / "l.xml"
    path.write_text(text)
    with pytest.raises(DataFileError, match=message):
        read_label_names(path)
