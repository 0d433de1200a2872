"""Excel files, written by hand: the smallest that readers take."""

import datetime
import zipfile
from xml.sax.saxutils import escape

_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
_TYPES = f"""<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml" ContentType="{_KIND}"/>
</Types>"""
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATION = f'<Relationship Id="{{}}" Type="{_OFFICE}/{{}}" Target="{{}}"/>'
_RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_BOOK = f"""<workbook {_MAIN} xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">
<sheets>{{}}</sheets></workbook>"""
#: Style 1 is a date with a time.
_STYLES = f"""<styleSheet {_MAIN}><fonts><font/></fonts><fills><fill/></fills><borders><border/></borders>
<cellStyleXfs><xf/></cellStyleXfs>
<cellXfs><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs></styleSheet>"""


def write_sheet(path, rows, names=("Sheet1",)):
    """Write rows of cells; each sheet gets the same ones."""
    lines = [
        f'<row r="{i}">{"".join(_cell(cell, i, j) for j, cell in enumerate(row))}</row>'
        for i, row in enumerate(rows, 1)
    ]
    sheet = f"<worksheet {_MAIN}><sheetData>{''.join(lines)}</sheetData></worksheet>"
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _RELATIONS.format(_RELATION.format("a", "officeDocument", "xl/workbook.xml")),
        "xl/styles.xml": _STYLES,
    }
    relations = [_RELATION.format("styles", "styles", "styles.xml")]
    sheets = []
    for number, name in enumerate(names, 1):
        parts[f"xl/worksheets/sheet{number}.xml"] = sheet
        relations.append(_RELATION.format(f"r{number}", "worksheet", f"worksheets/sheet{number}.xml"))
        sheets.append(f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"/>')
    parts["xl/workbook.xml"] = _BOOK.format("".join(sheets))
    parts["xl/_rels/workbook.xml.rels"] = _RELATIONS.format("".join(relations))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + content)


def _cell(value, row, column):
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    place = f'r="{letters}{row}"'
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f'<c {place} t="b"><v>{int(value)}</v></c>'
    if hasattr(value, "hour"):
        days = (value - datetime.datetime(1899, 12, 30)) / datetime.timedelta(days=1)
        return f'<c {place} s="1"><v>{days!r}</v></c>'
    if isinstance(value, str):
        return f'<c {place} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
    return f"<c {place}><v>{value!r}</v></c>"
