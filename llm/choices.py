"""FirstChoice: reads one answer out of a stream that holds several, though one was asked for."""


class FirstChoice:
    """Tells by their numbers which chunks are part of the answer that began first.

    Some servers number chunks where the choice belongs: as long as each number is the next one, nothing is another
    answer. Laws: chunks with one number, without numbers, or numbered one by one are all taken; where numbers come
    again, only those with the first one are.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._last: int | None = None
        self._counts = True

    def takes(self, number: int | None) -> bool:
        """Whether the next chunk, with this number, is read."""
        if number is None:
            return True
        if self._last is None:
            self._first = number
        elif number != self._last + 1:
            self._counts = False
        self._last = number
        return self._counts or number == self._first
