"""Search in the packaged documentation: sections ranked by the words that they share with a query."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

SHOWN = 3
MAX_SECTION = 1_500
_WORD = re.compile(r"[a-z0-9_]+|[\u4e00-\u9fff]")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about an and are as at be but by can could do does for from get give has have how i if in into is it its
        many may me much my of on or please should so take tell that the their them there this to turn turns
        turngraph use used was we what when where which who why will with would you your""",
    )
)
_HEADING_WEIGHT = 3
_SATURATION = 1.4
_LENGTH_PULL = 0.6


@dataclass(frozen=True)
class Section:
    """One headed part of a page."""

    page: str
    heading: str
    text: str

    @property
    def words(self) -> Counter[str]:
        heading = Counter({word: n * _HEADING_WEIGHT for word, n in Counter(terms(self.heading)).items()})
        return Counter(terms(self.text)) + heading


def search(query: str) -> str:
    """The best sections for a query as Markdown, best first; says what pages there are where nothing fits."""
    found = rank(query, sections())[:SHOWN]
    if not found:
        pages = sorted({section.page for section in sections()})
        return f"Nothing in the documentation fits {query.strip()[:200]!r}. Its pages: {', '.join(pages)}."
    return "\n\n".join(f"### {each.page} – {each.heading}\n{each.text[:MAX_SECTION]}" for each in found)


def rank(query: str, corpus: Sequence[Section]) -> list[Section]:
    """The sections that share a word with the query, best first (BM25); ties in the order of the corpus."""
    wanted = list(dict.fromkeys(terms(query)))
    counted = [section.words for section in corpus]
    sizes = [max(1, sum(words.values())) for words in counted]
    average = sum(sizes) / len(sizes) if sizes else 1.0
    scores = []
    for at, words in enumerate(counted):
        total = 0.0
        for word in wanted:
            having = sum(1 for each in counted if word in each)
            if word in words:
                rarity = math.log(1 + (len(corpus) - having + 0.5) / (having + 0.5))
                pull = 1 - _LENGTH_PULL + _LENGTH_PULL * sizes[at] / average
                total += rarity * words[word] * (_SATURATION + 1) / (words[word] + _SATURATION * pull)
        scores.append(total)
    order = sorted(range(len(corpus)), key=lambda at: (-scores[at], at))
    return [corpus[at] for at in order if scores[at] > 0]


def terms(text: str) -> list[str]:
    """The words of a text that say something, endings cut (`tools` meets `tool`); `a_name` counts in parts too."""
    found = []
    for word in _WORD.findall(text.lower()):
        parts = [word, *word.split("_")] if "_" in word else [word]
        found += [_stem(part) for part in parts if part and part not in _COMMON]
    return found


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


@lru_cache(maxsize=1)
def sections() -> tuple[Section, ...]:
    """All sections of the packaged pages, pages by name."""
    folder = files("turngraph").joinpath("data", "docs")
    pages = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".md")), key=lambda entry: entry.name)
    return tuple(section for page in pages for section in split_page(page.name[:-3], page.read_text("utf-8")))


def split_page(page: str, markdown: str) -> list[Section]:
    """A page cut at its headings (not at `#` lines inside code fences); text before the first belongs to the page."""
    heading, lines, made, fenced = page, list[str](), list[Section](), False

    def close() -> None:
        if text := "\n".join(lines).strip():
            made.append(Section(page, heading, text))
        lines.clear()

    for line in markdown.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced and re.match(r"#{1,4} ", line):
            close()
            heading = line.lstrip("#").strip()
        else:
            lines.append(line)
    close()
    return made
