"""What the user says while a turn runs: delivered to the model once, in order, or given back."""

from __future__ import annotations


class WordsSaid:
    """The words that wait for the model. The turn holds its lock around every method."""

    __slots__ = ("_stop_heard", "_waiting", "stop")

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self.stop: str | None = None
        """With this every further call is refused."""
        self._stop_heard = False

    def add(self, text: str, *, stop: bool) -> None:
        """The user said something."""
        if stop:
            self.stop = text
        else:
            self._waiting.append(text)

    def taken(self) -> list[str]:
        """What has waited; it is delivered now."""
        taken, self._waiting = self._waiting, []
        return taken

    def stopped(self) -> str | None:
        """The word to stop; it is delivered now."""
        self._stop_heard = True
        return self.stop

    def undelivered(self) -> list[str]:
        """What the model never read."""
        left = self.taken()
        if self.stop is not None and not self._stop_heard:
            left.append(self.stop)
        return left
