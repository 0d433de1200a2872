"""The elements of an HTML page, for tests of the pages."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Collects ids, resource addresses and the nesting of elements."""

    VOID = frozenset({"meta", "link", "img", "br", "input", "hr"})

    def __init__(self, page):
        super().__init__()
        self.ids, self.addresses, self.tags, self.open = [], [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
