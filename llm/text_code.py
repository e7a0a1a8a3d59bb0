"""CodeTracker: where streamed Markdown text is code or a quotation, so that tags in it are only text."""

import re
from functools import lru_cache

_MARKS = " \t>*+-.)0123456789"
"""What may stand before a fence on its line: indentation, marks of quotes and of lists."""

_FENCE_MARKS = " \t>"
"""The same before the fence that ends it."""

_PREFIX = re.compile(rf"[{re.escape(_MARKS)}]*")
_FENCE_PREFIX = re.compile(rf"[{_FENCE_MARKS}]*")
_RUN = re.compile(r"`+|~+")
_RUN_OR_LINE_END = re.compile(r"`+|\n+")
_QUOTES = re.compile(r'["“”\n]')


@lru_cache(maxsize=16)
def _search(marker: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<marker>{marker})|`+|\n+")


class CodeTracker:
    """Follows visible text and finds markers that stand outside code.

    Code is a fence (three or more ``` or ~~~ first on a line, up to a line with at least as many of them and nothing
    else, or the end of the text) and a span between equal runs of backticks on one line. A backtick that no other one
    answers ends with its line, since what follows cannot be waited for. With `quotes`, lines that begin with `>` and
    text between double quotes on one line are left out too.

    Law: what `find` says depends on the text before a position only, not on how the text was cut.
    """

    def __init__(self, marker: str, *, quotes: bool = False) -> None:
        self._search = _search(marker)
        self._quotes = quotes
        self.at_line_start = True
        self.plain = True
        """No span, no run of backticks is open: text without backticks and tildes changes `at_line_start` only."""
        self._run = 0
        self._run_mark = ""
        self._run_first = False
        self._fence = 0
        self._fence_mark = ""
        self._closing = False
        self._span = 0
        self._may_be_fence = False
        self._quoted_line = False
        self._quote = ""

    def find(self, text: str, at: int) -> int:
        """Takes in `text[at:]` up to the next marker outside code; returns its position, else `len(text)`."""
        while at < len(text):
            if self._run:
                at = self._read_run(text, at)
            elif self._fence:
                at = self._read_fence(text, at)
            elif self._span:
                at = self._read_span(text, at)
            else:
                at, found = self._read_plain(text, at)
                if found:
                    break
        self.plain = not (self._run or self._span or self._closing)
        return at

    def pass_plain(self, text: str) -> None:
        """Does what `find` does, where `plain` holds and `text` has no marker, backtick, tilde or double quote."""
        broken = "\n" in text
        if not (broken or self.at_line_start):
            return
        line = text[text.rindex("\n") + 1 :] if broken else text
        if broken:
            self._new_line()
        if not self._fence and self._quotes and ">" in line:
            self._mark_quoted(line, 0)
        self.at_line_start = not line.strip(_FENCE_MARKS if self._fence else _MARKS)

    def pass_over(self, text: str) -> None:
        """Takes in text that begins with a marker, which turned out to be only text. It holds no backtick."""
        self.at_line_start = False
        if self._quotes:
            self._read_quotes(text)

    def _begin_run(self, text: str, at: int) -> int:
        self._run_mark, self._run_first, self.at_line_start = text[at], self.at_line_start, False
        return self._read_run(text, at)

    def _read_run(self, text: str, at: int) -> int:
        """Goes on with a run of fence characters; once another character follows, decides what the run is."""
        found = _RUN.match(text, at) if text[at] == self._run_mark else None
        end = found.end() if found else at
        self._run += end - at
        if end < len(text):
            self._end_run()
        return end

    def _end_run(self) -> None:
        size, self._run = self._run, 0
        if self._fence:
            self._closing = size >= self._fence
        elif self._run_mark == "~":
            self._fence, self._fence_mark = (size if size >= 3 else 0), "~"
        elif self._span:
            self._span = 0 if size == self._span else self._span
            self._may_be_fence = False
        else:
            self._span, self._may_be_fence = size, self._run_first and size >= 3

    def _read_fence(self, text: str, at: int) -> int:
        if self._closing:
            return self._read_closing(text, at)
        if self.at_line_start:
            found = _FENCE_PREFIX.match(text, at)
            at = found.end() if found else at
            if at == len(text):
                return at
            if text[at] == self._fence_mark:
                return self._begin_run(text, at)
        return self._to_line_end(text, at)

    def _read_closing(self, text: str, at: int) -> int:
        """After the run that may end the fence: it does where nothing but space follows on its line."""
        while at < len(text) and text[at] in " \t\r":
            at += 1
        if at < len(text):
            self._closing = False
            if text[at] == "\n":
                self._fence = 0
        return at

    def _to_line_end(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        if end < 0:
            self.at_line_start = False
            return len(text)
        self._new_line()
        return end + 1

    def _new_line(self) -> None:
        self.at_line_start, self._quoted_line, self._quote = True, False, ""

    def _read_span(self, text: str, at: int) -> int:
        found = _RUN_OR_LINE_END.search(text, at)
        if found is None:
            return len(text)
        if text[found.start()] != "\n":
            return self._begin_run(text, found.start())
        if self._may_be_fence:
            self._fence, self._fence_mark = self._span, "`"
        self._span = 0
        self._new_line()
        return found.end()

    def _read_plain(self, text: str, at: int) -> tuple[int, bool]:
        """Reads text outside code up to a marker (then True), a run, the end of the line, or the end of the text."""
        if self.at_line_start:
            at = self._mark_quoted(text, at)
            if at == len(text):
                return at, False
            if text[at] in "`~":
                return self._begin_run(text, at), False
        found = self._search.search(text, at)
        end = found.start() if found else len(text)
        if end > at:
            self.at_line_start = False
            if self._quotes:
                self._read_quotes(text[at:end])
        if found is None:
            return end, False
        if found.lastgroup:
            if not (self._quoted_line or self._quote):
                return end, True
            self.pass_over(text[end : found.end()])
            return max(found.end(), end + 1), False
        if text[end] != "\n":
            return self._begin_run(text, end), False
        self._new_line()
        return found.end(), False

    def _mark_quoted(self, text: str, at: int) -> int:
        """Reads the marks before the text of a line; returns their end."""
        found = _PREFIX.match(text, at)
        end = found.end() if found else at
        self._quoted_line = self._quoted_line or (self._quotes and ">" in text[at:end])
        return end

    def _read_quotes(self, text: str) -> None:
        """Follows double quotes, straight and curly; each ends with its line at the latest."""
        for found in _QUOTES.finditer(text):
            mark = found.group()
            if mark == "\n":
                self._quote = ""
            elif not self._quote:
                self._quote = {'"': '"', "“": "”"}.get(mark, "")
            elif mark == self._quote:
                self._quote = ""
