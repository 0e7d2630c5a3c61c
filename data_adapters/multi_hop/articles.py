"""Linked articles: titles as links write them, HTML to paragraphs, and the paragraph that a snippet stands in."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from kvrelay.core.errors import AssetError, DataError

LEAST_WORDS = 10
"""A line of an article with at most so many words is a heading, a caption or an entry of a list."""
LEAST_SHARE = 0.9
"""Share of a snippet's words that its paragraph must hold: annotated snippets have been cleaned and cut."""

_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True, slots=True)
class Articles:
    """HTML by folded title. Some titles of the file are not in lower case, and some links are written as in a URL."""

    pages: Mapping[str, str]

    @classmethod
    def read(cls, file: Path, titles: Iterable[str]) -> Articles:
        """The articles of these titles. Raises `DataError` for a file that is no object of texts."""
        wanted = {cls.plain(title).casefold() for title in titles}
        try:
            found = json.loads(file.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise AssetError(f"{file}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}: not valid JSON ({error}); the file may be cut off") from error
        if not isinstance(found, dict) or not all(isinstance(page, str) for page in found.values()):
            raise DataError(f"{file}: wanted one JSON object from titles to articles")
        return cls({title.casefold(): page for title, page in found.items() if title.casefold() in wanted})

    @staticmethod
    def plain(title: str) -> str:
        """A link's target as a title."""
        return unquote(title).replace("_", " ").strip()

    def paragraphs(self, title: str) -> list[str]:
        """Plain paragraphs of an article in its order; none where the article is missing."""
        page = self.pages.get(title.casefold(), "")
        lines = [" ".join(line.split()) for line in html.unescape(_TAG.sub("", page)).splitlines()]
        long = [line for line in lines if len(line.split()) > LEAST_WORDS]
        return long or [line for line in lines if line]

    def paragraph_with(self, title: str, snippet: str) -> str:
        """The paragraph that holds a snippet, or nearly all its words; the snippet itself where none does."""
        said = " ".join(html.unescape(_TAG.sub("", snippet)).split())
        best, share = said, LEAST_SHARE
        for paragraph in self.paragraphs(title):
            if said in paragraph:
                return paragraph
            found = _share(said, paragraph)
            if found > share:
                best, share = paragraph, found
        return best


def _share(snippet: str, paragraph: str) -> float:
    """Share of the snippet's words, counted with repetition, that the paragraph holds."""
    words = Counter(re.findall(r"\w+", snippet.casefold()))
    shared = words & Counter(re.findall(r"\w+", paragraph.casefold()))
    return sum(shared.values()) / sum(words.values()) if words else 0.0
